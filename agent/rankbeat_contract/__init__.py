"""What every program of Rankbeat agrees on: names, the ring file's format, a monitor's settings. Pure, no imports but struct and zlib."""

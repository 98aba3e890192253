"""What every program agrees on: names, the ring's format, a monitor's settings. Pure: struct, zlib, re, typing."""

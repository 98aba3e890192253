"""Values that the other layers speak in: pure, frozen, base units."""

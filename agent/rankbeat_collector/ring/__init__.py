"""Reads rings that a hostile pod may have written: nothing is followed, mapped, kept open, waited for or believed."""

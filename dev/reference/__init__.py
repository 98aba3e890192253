"""The reference pages of docs/, each made from the one place where its facts stand."""

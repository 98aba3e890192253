"""Where measurements come from: the kernel, the network, vendors' libraries. They act and raise CannotMeasure."""

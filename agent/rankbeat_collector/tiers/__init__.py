"""What can be seen of a pod without a ring: MindSpore's own step files, and the loss lines in the pod's log.

Files are read as rings are (rankbeat_collector.ring.folder): no link followed, nothing kept open, nothing believed.
"""

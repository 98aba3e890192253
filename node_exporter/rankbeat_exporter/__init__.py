LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"

"""One file a picture: from a subject's records to a drawing with its sentence and its figures."""

"""Saved records → one HTML file that opens offline: what a model is worth, and what its embeddings look like."""

from sincere.report.keeping import keep_records
from sincere.report.subject import Subject, read_subject, subject_of
from sincere.report.writing import write_report

__all__ = ["Subject", "keep_records", "read_subject", "subject_of", "write_report"]

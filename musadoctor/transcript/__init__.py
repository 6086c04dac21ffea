"""Read what people paste, and turn each piece back into what the machine would have answered."""

from musadoctor.transcript.pieces import Piece
from musadoctor.transcript.reader import Transcript, read
from musadoctor.transcript.text import TranscriptError

__all__ = ["Piece", "Transcript", "TranscriptError", "read"]

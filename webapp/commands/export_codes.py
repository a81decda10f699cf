"""How `exportdesk export` ends. Its scripts rely on these numbers."""

EXIT_FAILED = 1
EXIT_ENDED = 3
EXIT_ACCESS = 4
EXIT_FILE = 5
EXIT_INTERRUPTED = 130

EXIT_CODES = """\
exit codes:
  0    done
  1    the export failed
  2    the command has to be changed
  3    the export was cancelled, ran out of time, or its file is no longer kept
  4    the desk cannot be reached, or does not allow it
  5    the file cannot be written, or is not right
  130  interrupted; the export goes on

The result alone goes to stdout: the export's id; with --wait its page; with -o the path of the file.
"""

"""The command line: words of a person -> the functions of the rooms. It sits on top of everything."""

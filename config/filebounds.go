package config

import (
	"strconv"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Bounds of the configuration file. The parser's time grows with size times nesting: without
// bounds, 60 kB of opening brackets take 10 s.
const (
	maxFileSize    = 256 << 10 // bytes
	maxFileNesting = 16        // brackets, or dashes in one line; settings need 3
)

// checkFileBounds returns an error for a file that exceeds the bounds, with its line. nil
// means that the parser can read the file in a short time.
func checkFileBounds(data string) (line int, f *flaw) {
	if len(data) > maxFileSize {
		return 1, &flaw{"the file has " + strconv.Itoa(len(data)) + " bytes, more than " + bytes(maxFileSize), "make it smaller"}
	}
	brackets, indicators, last := 0, 0, 0
	for _, t := range lexer.Tokenize(data) {
		if t.Position.Line != last {
			indicators, last = 0, t.Position.Line
		}
		switch t.Type { //nolint:exhaustive // only these nest
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			indicators++
		}
		if brackets+indicators > maxFileNesting {
			return t.Position.Line, &flaw{"values are nested more than " + strconv.Itoa(maxFileNesting) + " levels deep", "remove brackets or dashes: a setting is a value or a list of values"}
		}
	}
	return 0, nil
}

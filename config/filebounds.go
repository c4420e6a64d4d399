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
	maxFileNesting = 16        // brackets, or dashes in one line; settings need 6
)

// checkFileBounds returns an error, with its line, for a file that exceeds the bounds, and nil if the parser can
// read the file in a short time.
func checkFileBounds(text string) (line int, f *valueProblem) {
	if len(text) > maxFileSize {
		return 1, &valueProblem{"the file has " + strconv.Itoa(len(text)) + " bytes, more than " + formatSize(maxFileSize), "make it smaller"}
	}
	brackets, lineIndicators, tokenLine := 0, 0, 0
	for _, tok := range lexer.Tokenize(text) {
		if tok.Position.Line != tokenLine {
			lineIndicators, tokenLine = 0, tok.Position.Line
		}
		switch tok.Type { //nolint:exhaustive // only these nest
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			lineIndicators++
		}
		if brackets+lineIndicators > maxFileNesting {
			return tok.Position.Line, &valueProblem{"values are nested more than " + strconv.Itoa(maxFileNesting) + " levels deep", "remove brackets or dashes: a setting is a value or a list of values"}
		}
	}
	return 0, nil
}

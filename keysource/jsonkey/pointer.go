package jsonkey

import (
	"errors"
	"strings"
)

// errPointer is the error of CheckPointer.
var errPointer = errors.New("jsonkey: not a JSON pointer")

// CheckPointer returns an error if text is not a JSON pointer (RFC 6901). The pointer to the whole
// document, which is empty, is not permitted.
func CheckPointer(text string) error {
	if !strings.HasPrefix(text, "/") {
		return errPointer
	}
	for i := range len(text) {
		escape := text[i:]
		if text[i] == '~' && !strings.HasPrefix(escape, "~0") && !strings.HasPrefix(escape, "~1") {
			return errPointer
		}
	}
	return nil
}

// path is the rest of a JSON pointer below the current value. An empty path means that the pointer
// refers to the current value.
type path string

// next returns the member name or array index below the current value, and the path below that
// member. The path must not be empty.
func (p path) next() (name string, rest path) {
	name = string(p[1:])
	if end := strings.IndexByte(name, '/'); end >= 0 {
		name, rest = name[:end], path(name[end:])
	}
	if strings.Contains(name, "~") {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
	}
	return name, rest
}

package keysource

import (
	"iter"
	"strings"
)

// maxPointer is the maximum length of a JSON pointer to a claim in bytes.
const maxPointer = 256

// PointerNames returns the names of members and the indexes of elements in a JSON pointer, decoded.
func PointerNames(pointer string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
			decoded := strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
			if !yield(decoded) {
				return
			}
		}
	}
}

// Package valueerr says what is wrong with a value that somebody wrote. It is pure.
package valueerr

import (
	"strconv"
	"strings"
)

// Error is one value that cannot be used.
type Error struct {
	Key    string // the setting that it stands in; empty: the caller knows
	Value  string
	Wrong  string
	Remedy string // what to do instead
}

// Error is one line: the key, the value, the mistake, the remedy.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Key != "" {
		b.WriteString(e.Key + " ")
	}
	b.WriteString(strconv.Quote(e.Value) + ": " + e.Wrong)
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// Package valueerr defines the error for an invalid value of a setting. It is pure.
package valueerr

import (
	"strconv"
	"strings"
)

// Error describes one invalid value.
type Error struct {
	Key    string // name of the setting; empty if the caller adds it
	Value  string
	Wrong  string // the problem with the value
	Remedy string // advice for the operator
}

// Error returns one line with the key, the value, the problem and the remedy.
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

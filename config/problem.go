package config

import (
	"errors"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// Problem is one error in the settings.
type Problem struct {
	Key    string `json:"key"`             // as written in the place it came from; empty: no single key is at fault
	Value  string `json:"value,omitempty"` // empty: there is none to show
	From   string `json:"from,omitempty"`  // "flag", "environment", "shardway.yaml:12", "default"
	Wrong  string `json:"wrong"`
	Remedy string `json:"remedy"`
}

// String returns one line with the key, the value, the origin, the error and the remedy.
func (p Problem) String() string {
	var b strings.Builder
	if p.Key == "" {
		b.WriteString(p.From)
		p.From = ""
	}
	b.WriteString(p.Key)
	if p.Value != "" {
		b.WriteString(" = " + strconv.Quote(p.Value))
	}
	if p.From != "" {
		b.WriteString(" (" + p.From + ")")
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(p.Wrong)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// Error contains all problems, at least one.
type Error struct {
	Problems []Problem
}

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = "config: " + p.String()
	}
	return strings.Join(lines, "\n")
}

// failure returns the error for the problems, or nil if there are none.
func failure(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{problems}
}

// flaw is an error in a value, without the name of the setting.
type flaw struct {
	wrong  string
	remedy string
}

// flawOf converts an error of a parser; nil means no error.
func flawOf(err error) *flaw {
	if err == nil {
		return nil
	}
	if m := (*valueerr.Error)(nil); errors.As(err, &m) {
		return &flaw{m.Wrong, m.Remedy}
	}
	return &flaw{err.Error(), "correct it"}
}

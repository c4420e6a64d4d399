package admin

import (
	"errors"
	"strings"
)

// UnreadyError is the reason why a node is not ready.
type UnreadyError struct {
	// Brief is for every caller: a few words without names or addresses.
	Brief string
	// Why is additional text for operators; it may be empty.
	Why string
}

// Error returns both texts, or only Why if both start with the same word and a colon.
func (u *UnreadyError) Error() string {
	word, _, _ := strings.Cut(u.Brief, ":")
	switch {
	case u.Why == "":
		return u.Brief
	case strings.HasPrefix(u.Why, word+":"):
		return u.Why
	}
	return u.Brief + ": " + u.Why
}

// Brief returns the part of an error of Readiness that any caller may read.
func Brief(err error) string {
	if u, ok := errors.AsType[*UnreadyError](err); ok {
		return u.Brief
	}
	return "not ready"
}

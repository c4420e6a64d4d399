package admin

import "errors"

// UnreadyError is why a node is not ready.
type UnreadyError struct {
	// Brief is for everybody: a few words without names or addresses.
	Brief string
	// Why is what operators are told beside that; empty: nothing.
	Why string
}

// Error returns both.
func (u *UnreadyError) Error() string {
	if u.Why == "" {
		return u.Brief
	}
	return u.Brief + ": " + u.Why
}

// Brief returns what a stranger may know of err, an error of Readiness.
func Brief(err error) string {
	if u, ok := errors.AsType[*UnreadyError](err); ok {
		return u.Brief
	}
	return "not ready"
}

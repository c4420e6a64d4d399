//go:build linux

package main

import "net/http"

// result is what the app did for a request. Only its count is set if nothing but
// counting was asked for.
type result struct {
	// count is the number of this key's requests so far, this one included.
	count uint64
	// status is 200 if zero.
	status int
	// err tells in the answer why the status is another.
	message string
	// read tells that value is what a register held.
	hasValue  bool
	value string
}

func failed(status int, err error) result { return result{status: status, message: err.Error()} }

// head writes the part of the answer's head that clients parse.
func (r result) setHeader(h http.Header) {
	if r.hasValue {
		h.Set("App-Value", r.value)
	}
}

// add puts into the answer's body what the head says.
func (r result) addTo(body map[string]any) {
	if r.hasValue {
		body["value"] = r.value
	}
	if r.message != "" {
		body["error"] = r.message
	}
}

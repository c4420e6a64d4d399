//go:build linux

package main

import "net/http"

// result is the outcome of a request for its response.
type result struct {
	count   uint64 // value of App-Count
	status  int    // zero means 200
	message string // error in the body if status is not 200
	isRead  bool   // value is the value of a register
	value   string
}

// failureResult returns a result with an error status.
func failureResult(status int, err error) result { return result{status: status, message: err.Error()} }

// setHeader sets App-Value if the request read a register.
func (r result) setHeader(header http.Header) {
	if r.isRead {
		header.Set("App-Value", r.value)
	}
}

// addTo adds the value and the error to the fields of the body.
func (r result) addTo(body map[string]any) {
	if r.isRead {
		body["value"] = r.value
	}
	if r.message != "" {
		body["error"] = r.message
	}
}

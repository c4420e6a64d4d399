package wsfirst

import (
	"net/http"
	"unicode/utf8"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/wsession"
	"shardway/proxy/wsrelay"
)

// maxReason is the maximum length of the reason in a close frame, in bytes.
const maxReason = 123

// SetProblem makes the close frame for the client describe a problem with the request.
func (accepted *Accepted) SetProblem(prob *problem.Problem) {
	text := string(prob.Code)
	if prob.Detail != "" {
		text += ": " + prob.Detail
	}
	accepted.CloseCode, accepted.CloseReason = codeOf(prob.StatusCode()), clip(text, maxReason)
}

// SetRefusal sets the close frame for the client after a response of the app other than 101.
func (accepted *Accepted) SetRefusal(res *h1.Response) {
	code, isSet := wsrelay.RequestedCloseCode(res)
	if !isSet {
		code = codeOf(res.Status())
	}
	accepted.CloseCode, accepted.CloseReason = code, wsession.ReasonRefused
}

// codeOf returns the close code that corresponds to the status of a response. ClosePolicy tells the client not to
// try again, and CloseTryLater that it may.
func codeOf(status int) int {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return wsession.CloseTooLong
	case http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return wsession.CloseTryLater
	}
	if status >= 500 {
		return wsession.CloseTryLater
	}
	return wsession.ClosePolicy
}

// clip truncates a text to up to n bytes, without splitting a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

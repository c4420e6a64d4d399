package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Problem is an error response. It is small and meant to live on the stack. A zero field, except
// Code, omits the member or selects the default of the code.
//
//nolint:errname // RFC 9457 calls it a problem, and so do other libraries.
type Problem struct {
	Code Code
	// Status is the HTTP status. Zero means the default of the code.
	Status int
	// Title is the same for every problem of a kind. Empty means the default of the code.
	Title string
	// Detail states what happened and what to do about it.
	Detail string
	// RetryAfter is when the client may retry. It is rounded up to seconds.
	RetryAfter time.Duration

	// Node is the id of the responding node.
	Node string
	// Service is the service of the request. It is empty without configured services.
	Service string
	// Shard is the shard within the service. It is valid only if HasShard is set, because 0 is a valid shard.
	Shard    uint32
	HasShard bool
	// Epoch is the epoch of the map that the node used.
	Epoch uint64
	// Reason is one word that distinguishes problems of one code: why a request
	// waited, which limit was reached.
	Reason string
	// Finding is the finding about the cluster that explains the problem, if any.
	Finding string
	// Param and Value are the invalid part of the request.
	Param string
	Value string
}

// New returns the problem of a code with a detail.
func New(code Code, detail string) *Problem {
	return &Problem{Code: code, Detail: detail}
}

// Newf is New with a format.
func Newf(code Code, format string, args ...any) *Problem {
	return New(code, fmt.Sprintf(format, args...))
}

// Error returns the code and the detail, or the title when there is no detail.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code) + ": " + p.title()
	}
	return string(p.Code) + ": " + p.Detail
}

// StatusCode returns the HTTP status of the response.
func (p *Problem) StatusCode() int {
	if p.Status != 0 {
		return p.Status
	}
	return p.Code.Status()
}

// RetryAfterSeconds returns the value of the header Retry-After, or 0 for no header. It rounds
// up, so that no client retries too early.
func (p *Problem) RetryAfterSeconds() int {
	if p.RetryAfter <= 0 {
		return 0
	}
	return int((p.RetryAfter + time.Second - 1) / time.Second)
}

// title returns the title of the response.
func (p *Problem) title() string {
	if p.Title != "" {
		return p.Title
	}
	return p.Code.Title()
}

// AppendJSON appends p as a JSON object without a newline, and returns the extended slice. The
// strings of p may contain any bytes.
func (p *Problem) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"type":"`+typePrefix...)
	dst = appendEscaped(dst, string(p.Code))
	dst = append(dst, `","title":"`...)
	dst = appendEscaped(dst, p.title())
	dst = append(dst, `","status":`...)
	dst = strconv.AppendInt(dst, int64(p.StatusCode()), 10)
	dst = appendMember(dst, "detail", p.Detail)
	dst = append(dst, `,"code":"`...)
	dst = appendEscaped(dst, string(p.Code))
	dst = append(dst, '"')
	dst = appendMember(dst, "reason", p.Reason)
	dst = appendMember(dst, "node", p.Node)
	dst = appendMember(dst, "service", p.Service)
	if p.HasShard {
		dst = append(dst, `,"shard":`...)
		dst = strconv.AppendUint(dst, uint64(p.Shard), 10)
	}
	if p.Epoch != 0 {
		dst = append(dst, `,"epoch":`...)
		dst = strconv.AppendUint(dst, p.Epoch, 10)
	}
	dst = appendMember(dst, "finding", p.Finding)
	dst = appendMember(dst, "param", p.Param)
	dst = appendMember(dst, "value", p.Value)
	if s := p.RetryAfterSeconds(); s > 0 {
		dst = append(dst, `,"retry_after":`...)
		dst = strconv.AppendInt(dst, int64(s), 10)
	}
	return append(dst, '}')
}

// Write writes a problem document as the response to a request. The response header must not have been
// written.
func Write(w http.ResponseWriter, problem *Problem) {
	body := append(problem.AppendJSON(make([]byte, 0, 512)), '\n')
	header := w.Header()
	header.Set("Content-Type", ContentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set(HeaderError, string(problem.Code))
	if s := problem.RetryAfterSeconds(); s > 0 {
		header.Set("Retry-After", strconv.Itoa(s))
	}
	w.WriteHeader(problem.StatusCode())
	// An error means that the client has disconnected.
	_, _ = w.Write(body)
}

// Decode parses the output of AppendJSON, for clients. It ignores unknown members (RFC 9457,
// section 3.2).
func Decode(content []byte) (*Problem, error) {
	var members struct {
		Title      string  `json:"title"`
		Status     int     `json:"status"`
		Detail     string  `json:"detail"`
		Code       Code    `json:"code"`
		Reason     string  `json:"reason"`
		Node       string  `json:"node"`
		Service    string  `json:"service"`
		Shard      *uint32 `json:"shard"`
		Epoch      uint64  `json:"epoch"`
		Finding    string  `json:"finding"`
		Param      string  `json:"param"`
		Value      string  `json:"value"`
		RetryAfter uint16  `json:"retry_after"`
	}
	if err := json.Unmarshal(content, &members); err != nil {
		return nil, fmt.Errorf("problem: decode: %w", err)
	}
	if members.Code == "" {
		return nil, errors.New("problem: decode: no code")
	}
	decoded := &Problem{
		Code: members.Code, Status: members.Status, Title: members.Title, Detail: members.Detail, Reason: members.Reason, Node: members.Node, Service: members.Service,
		Epoch: members.Epoch, Finding: members.Finding, Param: members.Param, Value: members.Value, RetryAfter: time.Duration(members.RetryAfter) * time.Second,
	}
	if decoded.Status < 400 || decoded.Status > 599 {
		decoded.Status = 0 // an invalid status from another server must not make WriteHeader panic
	}
	if members.Shard != nil {
		decoded.Shard, decoded.HasShard = *members.Shard, true
	}
	return decoded, nil
}

// appendMember appends a JSON member with a string value, preceded by a comma, unless the value is empty.
func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":"`...)
	dst = appendEscaped(dst, value)
	return append(dst, '"')
}

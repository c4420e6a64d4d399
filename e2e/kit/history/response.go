package history

// Attempt is one try of a client to send a request. Only the last attempt of a Response
// may have received a response. The earlier ones found no listener, or an idle connection
// that was closed before the first byte of a response.
type Attempt struct {
	Target string `json:"target"`
	// Reused reports whether the connection had carried a request before.
	Reused bool `json:"reused,omitempty"`
	// Refused reports whether the connection was refused because no process listened.
	Refused bool   `json:"refused,omitempty"`
	Sent    int64  `json:"sent"`
	Done    int64  `json:"done"`
	Err     string `json:"err,omitempty"`
}

// Response is the result of one request as the client observed it.
type Response struct {
	ID     string `json:"id"`
	Key    string `json:"key"`
	Method string `json:"method"`
	// Status is 0 if no response came. The last attempt then contains the error.
	Status int `json:"status"`
	// Error is the Shardway-Error header of the response. It is empty for responses of
	// the app.
	Error string `json:"error,omitempty"`
	// App and EchoID come from the response of the app: its name, and the ID of the
	// request that it responded to.
	App    string `json:"app,omitempty"`
	EchoID string `json:"echo_id,omitempty"`
	// Count is the number of requests for this key that the app has counted, including
	// this one.
	Count uint64 `json:"count,omitempty"`
	// Register is the App-Register header of the request; empty means that the request is
	// no operation on a register. WrittenValue is the value that a write stores. Value is the
	// value that a read returned.
	Register     string `json:"register,omitempty"`
	WrittenValue string `json:"wrote,omitempty"`
	Value        string `json:"value,omitempty"`
	// Bytes is the length of the received body.
	Bytes int64 `json:"bytes"`
	// Truncated reports whether the body ended before the end that its framing announced.
	Truncated bool `json:"truncated,omitempty"`
	// Extra is the number of bytes that arrived on the connection after the end of the
	// response and before the next request. They would be a second response.
	Extra int `json:"extra,omitempty"`
	// Detail is the start of the body of an error response.
	Detail   string    `json:"detail,omitempty"`
	Attempts []Attempt `json:"attempts"`
}

// SentAt returns the start of the first attempt.
func (r *Response) SentAt() int64 {
	if len(r.Attempts) == 0 {
		return 0
	}
	return r.Attempts[0].Sent
}

// DoneAt returns the end of the last attempt.
func (r *Response) DoneAt() int64 {
	if len(r.Attempts) == 0 {
		return 0
	}
	return r.Attempts[len(r.Attempts)-1].Done
}

// OK reports whether this is a complete response with status 200.
func (r *Response) OK() bool { return r.Status == 200 && !r.Truncated }

// Fenced reports whether an app sent this response because the store had rejected its
// epoch. The app has not changed anything then.
func (r *Response) Fenced() bool {
	return r.Status == 409 && r.Error == "" && !r.Truncated && r.App != "" && r.EchoID == r.ID
}

// Denied reports whether a node responded that it has not run an unsafe request, which is
// the meaning of 503. A safe request may have run before without success.
func (r *Response) Denied() bool {
	return r.Status == 503 && r.Error != "" && !r.Safe()
}

// Safe reports whether the request may run more than once.
func (r *Response) Safe() bool { return safe(r.Method) }

func safe(method string) bool {
	return method == "GET" || method == "HEAD" || method == "OPTIONS"
}

// lastAttempt returns the last attempt, which received the response if there is one.
func (r *Response) lastAttempt() Attempt {
	if len(r.Attempts) == 0 {
		return Attempt{Err: "never sent"}
	}
	return r.Attempts[len(r.Attempts)-1]
}

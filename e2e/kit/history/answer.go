package history

// Attempt is one try of a client to send a request. Only the last one of an
// Answer may have brought an answer: the ones before found nobody listening,
// or an idle connection that was closed before any byte of an answer.
type Attempt struct {
	Target string `json:"target"`
	// Reused tells that the connection had carried a request before.
	Reused bool `json:"reused,omitempty"`
	// Refused tells that nobody listened.
	Refused bool   `json:"refused,omitempty"`
	Sent    int64  `json:"sent"`
	Done    int64  `json:"done"`
	Err     string `json:"err,omitempty"`
}

// Answer is what a client got for one request.
type Answer struct {
	ID     string `json:"id"`
	Key    string `json:"key"`
	Method string `json:"method"`
	// Status is 0 if no answer came: the last attempt says why.
	Status int `json:"status"`
	// Error is the answer's Shardway-Error, empty for the app's own answers.
	Error string `json:"error,omitempty"`
	// App and EchoID are what the app put into its answer: its name, and the id
	// of the request that it answers.
	App    string `json:"app,omitempty"`
	EchoID string `json:"echo_id,omitempty"`
	// Count is the app's count of this key's requests, this one included.
	Count uint64 `json:"count,omitempty"`
	// Register is the App-Register of the request, empty if it is no operation on
	// a register. Wrote is what it set out to write; Value is what it read.
	Register string `json:"register,omitempty"`
	Wrote    string `json:"wrote,omitempty"`
	Value    string `json:"value,omitempty"`
	// Bytes is the length of the body as it came.
	Bytes int64 `json:"bytes"`
	// Cut tells that the body ended before its framing said so.
	Cut bool `json:"cut,omitempty"`
	// Extra counts bytes that came on the connection after the answer's end and
	// before another request was sent: a second answer.
	Extra int `json:"extra,omitempty"`
	// Detail is the start of the body of an error answer.
	Detail   string    `json:"detail,omitempty"`
	Attempts []Attempt `json:"attempts"`
}

// Sent is when the first attempt began.
func (a *Answer) Sent() int64 {
	if len(a.Attempts) == 0 {
		return 0
	}
	return a.Attempts[0].Sent
}

// Done is when the last attempt ended.
func (a *Answer) Done() int64 {
	if len(a.Attempts) == 0 {
		return 0
	}
	return a.Attempts[len(a.Attempts)-1].Done
}

// OK tells whether this is a whole answer of status 200.
func (a *Answer) OK() bool { return a.Status == 200 && !a.Cut }

// Fenced tells whether an app gave this answer because the store had refused its
// epoch: nothing was done.
func (a *Answer) Fenced() bool {
	return a.Status == 409 && a.Error == "" && !a.Cut && a.App != "" && a.EchoID == a.ID
}

// Denied tells whether a node answered that an unsafe request has not run: so 503
// is to be understood. A safe one may have run in vain before.
func (a *Answer) Denied() bool {
	return a.Status == 503 && a.Error != "" && !a.Safe()
}

// Safe tells whether the request may run more than once.
func (a *Answer) Safe() bool { return safe(a.Method) }

func safe(method string) bool {
	return method == "GET" || method == "HEAD" || method == "OPTIONS"
}

// final is the last attempt, which brought the answer if there is one.
func (a *Answer) final() Attempt {
	if len(a.Attempts) == 0 {
		return Attempt{Err: "never sent"}
	}
	return a.Attempts[len(a.Attempts)-1]
}

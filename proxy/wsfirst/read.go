package wsfirst

import (
	"errors"
	"os"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
)

const (
	// Timeout is how long the first message may take to arrive completely after the 101 response.
	Timeout = 5 * time.Second
	// MaxMessage is the maximum size of the first message in bytes.
	MaxMessage = 64 << 10
	// maxControlFrames is how many control frames a client may send before the end of the message.
	maxControlFrames = 16
)

// Failure is why no first message was read.
type Failure struct {
	Result    wsession.FirstMessage
	Code      problem.Code // for the access log
	CloseCode int          // zero means that no close frame can be sent
	Reason    string       // reason of the close frame
}

// Failures that are the same for every WebSocket.
var (
	failureClosed  = &Failure{Result: wsession.FirstClientGone}
	failureTimeout = &Failure{wsession.FirstTimedOut, problem.RequestTimeout, wsession.ClosePolicy, "request-timeout: the first message did not arrive within 5 s"}
	failureEvicted = &Failure{wsession.FirstEvicted, problem.QueueFull, wsession.CloseTryLater, "queue-full: too many WebSockets wait for their first message"}
	failureTooLong = &Failure{wsession.FirstTooLong, problem.TooLarge, wsession.CloseTooLong, "too-large: the first message exceeds 64 KiB"}
	failureFlood   = &Failure{wsession.FirstInvalid, problem.BadRequest, wsession.ClosePolicy, "bad-request: too many control frames before the first message"}
	failureNotUTF8 = &Failure{wsession.FirstInvalid, problem.BadRequest, wsession.CloseInvalidData, "bad-request: a text message is not valid UTF-8"}
	failureInvalid = &Failure{wsession.FirstInvalid, problem.BadRequest, wsession.CloseProtocol, wsession.DefaultReason(wsession.CloseProtocol)}
)

// reader reads the first message of one WebSocket.
type reader struct {
	conn          *h1.Conn
	scanner       *wsframe.Scanner
	assembler     *wsframe.Assembler
	deadline      time.Time
	controlFrames int
}

// Read reads the first message of a WebSocket from conn, after the 101 response was written. It answers
// pings and close frames. On success it returns nil, and sets Message, Frame and Scanner. It returns
// failureEvicted if another goroutine calls conn.PauseRead.
func (accepted *Accepted) Read(conn *h1.Conn) *Failure {
	accepted.Scanner = wsframe.Client()
	r := reader{conn: conn, scanner: &accepted.Scanner, assembler: wsframe.NewAssembler(&accepted.Scanner, MaxMessage), deadline: time.Now().Add(Timeout)}
	for {
		data, failure := r.waitForData()
		if failure != nil {
			return failure
		}
		isComplete, failure := r.process(data)
		if failure != nil {
			return failure
		}
		if isComplete {
			accepted.Message = &shardkey.FirstMessage{IsText: r.assembler.IsText(), Data: r.assembler.Data()}
			accepted.Frame = wsframe.AppendMessage(nil, r.assembler.IsText(), r.assembler.Data())
			return nil
		}
	}
}

// waitForData returns the bytes that have arrived. They are valid until the next call.
func (r *reader) waitForData() ([]byte, *Failure) {
	timeLeft := time.Until(r.deadline)
	if timeLeft <= 0 {
		return nil, failureTimeout
	}
	data, err := r.conn.PeekFor(timeLeft)
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, h1.ErrPaused):
		return nil, failureEvicted
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, failureTimeout
	}
	return nil, failureClosed
}

// process consumes data up to the end of the message, and answers control frames. isComplete
// reports whether the message has ended. The rest of data stays in the connection's buffer.
func (r *reader) process(data []byte) (isComplete bool, failure *Failure) {
	for len(data) > 0 {
		n, isComplete, err := r.assembler.Step(data)
		if err != nil {
			return false, failureOf(err)
		}
		r.conn.Consume(n)
		if isComplete {
			return true, nil
		}
		data = data[n:]
		if r.scanner.IsControl() && r.scanner.BetweenFrames() {
			if failure := r.answer(); failure != nil {
				return false, failure
			}
		}
	}
	return false, nil
}

// failureOf returns the failure after an error of the Assembler.
func failureOf(err error) *Failure {
	switch {
	case errors.Is(err, wsframe.ErrTooLong):
		return failureTooLong
	case errors.Is(err, wsframe.ErrUTF8):
		return failureNotUTF8
	}
	return failureInvalid
}

// answer answers the control frame that has just ended.
func (r *reader) answer() *Failure {
	if r.controlFrames++; r.controlFrames > maxControlFrames {
		return failureFlood
	}
	switch r.scanner.Opcode() {
	case wsframe.OpPing:
		writer := r.conn.Writer()
		writer.SetPrecondition(func() (time.Duration, error) { return wsession.CloseFrameTimeout, nil })
		_, err := writer.Write(wsframe.AppendControl(nil, wsframe.OpPong, r.scanner.Payload(), false))
		if err != nil || writer.Flush() != nil {
			return failureClosed
		}
	case wsframe.OpClose:
		return &Failure{Result: wsession.FirstClientGone, CloseCode: r.scanner.CloseCode()}
	}
	return nil
}

// Disconnected returns the failure of a client that has disconnected.
func Disconnected() *Failure { return failureClosed }

package membership

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack/join"
)

// ownJoinTTL is how long a node relies on the last report about its join request. The leader repeats the report each
// confirmInterval.
const ownJoinTTL = 10 * confirmInterval

// OwnJoin contains the state of the join request of this node, as the leader has reported it last. A node that waits for
// an approval has no log, so it cannot read the state there. Its methods may be called from any goroutine.
type OwnJoin struct {
	log zerolog.Logger

	// mu protects the following fields.
	mu         sync.Mutex
	status     JoinStatus
	receivedAt time.Time // zero means that there is no report
}

// NewOwnJoin returns an OwnJoin without a report.
func NewOwnJoin(log zerolog.Logger) *OwnJoin { return &OwnJoin{log: log} }

// Receive stores a report. It logs a report that differs from the previous one.
func (o *OwnJoin) Receive(status JoinStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	previous := o.status
	o.status, o.receivedAt = status, time.Now()
	if previous.Stage == status.Stage && previous.Ticket == status.Ticket && previous.Reason == status.Reason {
		return
	}
	level := zerolog.InfoLevel
	if status.Stage == join.Refused.String() || status.Stage == join.Expired.String() {
		level = zerolog.WarnLevel
	}
	o.log.WithLevel(level).Str("stage", status.Stage).Uint64("ticket", status.Ticket).Str("reason", status.Reason).Msg("waiting for approval to join")
}

// Status returns the last report. ok is false if there is none, or if it is too old.
func (o *OwnJoin) Status() (status JoinStatus, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ok = !o.receivedAt.IsZero() && time.Since(o.receivedAt) <= ownJoinTTL
	return o.status, ok
}

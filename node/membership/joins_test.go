package membership_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack/join"
	"shardway/node/membership"
)

// The report about a join request ends when the leader no longer repeats it.
func TestOwnJoinStatusEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := membership.NewOwnJoin(zerolog.Nop())
		if _, ok := own.Status(); ok {
			t.Error("a status without a report")
		}
		own.Receive(membership.JoinStatus{Stage: join.Requested.String(), Ticket: 7})
		if status, ok := own.Status(); !ok || status.Ticket != 7 {
			t.Errorf("%+v, %v", status, ok)
		}
		time.Sleep(time.Minute)
		if status, ok := own.Status(); ok {
			t.Errorf("%+v after a minute without a report", status)
		}
	})
}

// A leader whose term has ended refuses decisions.
func TestDecisionAfterTheTermIsRefused(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	reconciler := membership.NewReconciler(membership.ReconcilerOptions{})
	if err := reconciler.DecideJoin(t.Context(), join.Decision{Node: "d"}, ended); !errors.Is(err, membership.ErrNotReady) {
		t.Errorf("error %v, want ErrNotReady", err)
	}
}

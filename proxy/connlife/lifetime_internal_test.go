package connlife

import (
	"context"
	"testing"
)

func TestLifetimeEndsAllWaiters(t *testing.T) {
	l := &Lifetime{ParentCtx: t.Context()}
	before := l.Context()
	if before.Err() != nil || l.Context() != before {
		t.Error("the context of a connection that lives has ended, or is another one each time")
	}
	l.End()
	l.End()
	if before.Err() == nil {
		t.Error("who waits is not told of the end")
	}
	l = &Lifetime{ParentCtx: t.Context()}
	l.End()
	if l.Context().Err() == nil {
		t.Error("who begins to wait after the end is not told of it")
	}
	outer, stop := context.WithCancel(t.Context())
	l = &Lifetime{ParentCtx: outer}
	stop()
	if l.Context().Err() == nil {
		t.Error("who waits is not told that the server's life is over")
	}
}

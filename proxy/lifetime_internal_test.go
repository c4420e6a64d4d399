package proxy

import (
	"context"
	"testing"
)

func TestLifetimeEndsAllWaiters(t *testing.T) {
	l := &lifetime{parentCtx: t.Context()}
	before := l.context()
	if before.Err() != nil || l.context() != before {
		t.Error("the context of a connection that lives has ended, or is another one each time")
	}
	l.end()
	l.end()
	if before.Err() == nil {
		t.Error("who waits is not told of the end")
	}
	l = &lifetime{parentCtx: t.Context()}
	l.end()
	if l.context().Err() == nil {
		t.Error("who begins to wait after the end is not told of it")
	}
	outer, stop := context.WithCancel(t.Context())
	l = &lifetime{parentCtx: outer}
	stop()
	if l.context().Err() == nil {
		t.Error("who waits is not told that the server's life is over")
	}
}

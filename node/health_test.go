package node_test

import (
	"context"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardway/node"
	"shardway/node/apphealth"
)

// A refused request triggers a health check immediately, before the next check is due.
func TestRefusedRequestHasTheAppChecked(t *testing.T) {
	bubble(t, func(w *world) {
		var gone atomic.Bool
		refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		w.tune = func(o *node.Options) {
			o.Health = apphealth.Settings{Interval: time.Hour, Timeout: time.Second, Fall: 2, Rise: 1}
			o.Proxy.DialUpstream = func(context.Context) (net.Conn, error) { return nil, refused }
			o.CheckApp = func(context.Context) error {
				if gone.Load() {
					return refused
				}
				return nil
			}
		}
		w.start("a")
		w.untilSettled("a")
		a := w.all["a"]
		gone.Store(true)
		time.Sleep(time.Minute)
		if err := a.node.API().Ready(); err != nil {
			t.Fatalf("Ready = %v before anybody looked", err)
		}
		ask(w, a, "a", "/")
		began := time.Now()
		w.until("the node knows that its app is gone", func() bool {
			err := a.node.API().Ready()
			return err != nil && strings.Contains(err.Error(), "the app does not answer")
		})
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		gone.Store(false)
		w.until("the app is back", func() bool { return a.node.API().Ready() == nil })
	})
}

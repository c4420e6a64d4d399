//go:build linux

package dashboard_test

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/auth"
	"shardway/e2e/dashboard"
	"shardway/e2e/kit/browser"
)

var (
	desk  = browser.View{Width: 1280, Height: 900}
	night = browser.View{Width: 1280, Height: 900, Dark: true}
	phone = browser.View{Width: 360, Height: 740, Scale: 2, Phone: true}
)

// handler is an admin port that tells of a scene.
func handler(s *dashboard.Scene, a auth.Access) http.Handler {
	return admin.New(admin.Options{API: s.API(), Events: s.Ring, Metrics: prometheus.NewRegistry(), Log: zerolog.Nop(), Access: a}).Handler()
}

// serve has an admin port tell of a scene, and returns its address and what ends it at once,
// streams too.
func serve(t *testing.T, s *dashboard.Scene, a auth.Access) (url string, end func()) {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: handler(s, a), ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(ln) })
	end = sync.OnceFunc(func() {
		_ = srv.Close()
		serving.Wait()
	})
	t.Cleanup(end)
	return "http://" + ln.Addr().String(), end
}

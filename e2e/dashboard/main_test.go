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
	night = browser.View{Width: 1280, Height: 900, DarkMode: true}
	phone = browser.View{Width: 360, Height: 740, Scale: 2, Phone: true}
)

// handler returns an admin port that serves a scene.
func handler(scene *dashboard.Scene, a auth.Access) http.Handler {
	return admin.New(admin.Options{API: scene.API(), Events: scene.Ring, Metrics: prometheus.NewRegistry(), Log: zerolog.Nop(), Access: a}).Handler()
}

// serve starts an admin port that serves a scene. It returns its address and a function
// that ends it at once, including streams.
func serve(t *testing.T, scene *dashboard.Scene, a auth.Access) (url string, end func()) {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: handler(scene, a), ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(ln) })
	end = sync.OnceFunc(func() {
		_ = srv.Close()
		serving.Wait()
	})
	t.Cleanup(end)
	return "http://" + ln.Addr().String(), end
}

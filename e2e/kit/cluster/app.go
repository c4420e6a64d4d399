//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// App is the recording app behind a node. It is a separate process, which continues when
// its node is killed or paused.
type App struct {
	// Addr is its address for the node and the test.
	Addr string

	cluster   *Cluster
	name      string
	location  location
	processes []appProcess
	// endFault records the end of the fault of Kill. It is called when the app is started
	// again.
	endFault func()
}

// appProcess is one process of an app. Each process writes its own records.
type appProcess struct {
	process  *Process
	records  *records
	killedAt int64 // value of history.Now when it was killed; 0 means not killed
}

func (a *App) start() error {
	process, err := a.cluster.spawner.launch(filepath.Join(a.cluster.dir, "app-"+a.name+".log"), a.cluster.dir, a.location.command(a.command()...))
	if err != nil {
		return err
	}
	a.processes = append(a.processes, appProcess{process: process, records: newRecords(a.recordsFile())})
	return nil
}

// recordsFile returns the records file of the next process.
func (a *App) recordsFile() string {
	return filepath.Join(a.cluster.dir, fmt.Sprintf("app-%s-%d.records", a.name, len(a.processes)))
}

// command returns the command line of the next process.
func (a *App) command(more ...string) []string {
	return slices.Concat([]string{a.cluster.opts.Binaries.App, "-name", a.name, "-listen", a.Addr, "-records", a.recordsFile()}, a.cluster.opts.AppFlags, more)
}

// Start starts the app after Kill, and waits until it responds.
func (a *App) Start(tb testing.TB) {
	tb.Helper()
	if a.cluster.opts.Embedded {
		tb.Fatalf("app %s starts with its node", a.name)
	}
	if err := a.start(); err != nil {
		tb.Fatal(err)
	}
	Await(tb, "app "+a.name+" serves", func() error { return a.control(tb.Context(), "/", nil) })
	if a.endFault != nil {
		a.endFault()
		a.endFault = nil
	}
}

// Kill sends SIGKILL to the app.
func (a *App) Kill(tb testing.TB) {
	tb.Helper()
	process, fault := &a.processes[len(a.processes)-1], len(a.cluster.faults)
	a.endFault = a.cluster.RecordFault(history.Fault{Kind: history.AppDown, Node: a.name})
	if err := process.process.kill(); err != nil {
		tb.Fatal(err)
	}
	process.killedAt = history.Now()
	a.cluster.faults[fault].ExitedBy = process.killedAt
}

// Signal sends a signal to the app. After SIGSTOP it waits until the app has stopped:
// until the kernel has scheduled its threads, they continue and read requests.
func (a *App) Signal(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	process := a.processes[len(a.processes)-1].process
	if err := process.Signal(sig); err != nil {
		tb.Fatal(err)
	}
	if sig != syscall.SIGSTOP {
		return
	}
	Await(tb, "app "+a.name+" stops", func() error {
		if !process.isStopped() {
			return errors.New("it still runs")
		}
		return nil
	})
}

// Release lets the requests that hang under a name continue, now and later.
func (a *App) Release(tb testing.TB, name string) {
	tb.Helper()
	if err := a.control(tb.Context(), "/release?name="+url.QueryEscape(name), nil); err != nil {
		tb.Fatal(err)
	}
}

// AwaitHanging waits until n requests hang under a name.
func (a *App) AwaitHanging(tb testing.TB, name string, n int) {
	tb.Helper()
	Await(tb, fmt.Sprintf("%d requests hang in app %s", n, a.name), func() error {
		var got int
		if err := a.control(tb.Context(), "/hanging?name="+url.QueryEscape(name), &got); err != nil {
			return err
		}
		if got != n {
			return fmt.Errorf("%d hang", got)
		}
		return nil
	})
}

// SetUnhealthy makes the app respond to /health with 503, or with 200 again. It serves
// requests all the time.
func (a *App) SetUnhealthy(tb testing.TB, fail bool) {
	tb.Helper()
	if err := a.control(tb.Context(), fmt.Sprintf("/unhealthy?on=%t", fail), nil); err != nil {
		tb.Fatal(err)
	}
}

// ClearCache makes an app with a cache drop its memory.
func (a *App) ClearCache(tb testing.TB) {
	tb.Helper()
	if err := a.control(tb.Context(), "/forget", nil); err != nil {
		tb.Fatal(err)
	}
}

// ClosePort makes the app refuse connections for d, while its process continues. With
// all, it also closes its open connections.
func (a *App) ClosePort(tb testing.TB, d time.Duration, all bool) {
	tb.Helper()
	if err := a.control(tb.Context(), fmt.Sprintf("/close-port?for=%v&all=%t", d, all), nil); err != nil {
		tb.Fatal(err)
	}
}

// Executions returns the number of runs of one request in this app.
func (a *App) Executions(tb testing.TB, id string) int {
	tb.Helper()
	var n int
	if err := a.control(tb.Context(), "/executions?id="+url.QueryEscape(id), &n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func (a *App) control(ctx context.Context, path string, target any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.Addr+path, nil)
	if err != nil {
		return err
	}
	return a.cluster.do(r, target)
}

// runs reads the records of all its processes. Unfinished runs of a killed app ended with
// it.
func (a *App) runs() ([]history.Run, error) {
	var all []history.Run
	for _, process := range a.processes {
		if err := process.records.read(); err != nil {
			return nil, err
		}
		if process.killedAt == 0 && a.cluster.opts.Embedded && !process.process.Running() {
			process.killedAt = process.process.exitedAt // it ended with its node
		}
		first := len(all)
		all = append(all, process.records.runs...)
		for i := first; i < len(all); i++ {
			if all[i].End == 0 && process.killedAt != 0 {
				all[i].End, all[i].Aborted = process.killedAt, true
			}
		}
	}
	return all, nil
}

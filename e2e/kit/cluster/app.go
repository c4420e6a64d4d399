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
	"strings"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// App is the recording app behind a node. It is a separate process, which continues when
// its node is killed or paused.
type App struct {
	// Addr is the address at which it receives requests of the node and of the test.
	Addr string
	// Service is the service of the app. It is empty without Options.Services.
	Service string

	cluster   *Cluster
	name      string
	location  location
	processes []appProcess
	// endFault records the end of the fault that Kill began. Start calls it. nil means that the app
	// was not killed.
	endFault func()
}

// appProcess is one process of an app. Each process writes its own records.
type appProcess struct {
	process  *Process
	records  *records
	killedAt int64 // value of history.Now; zero means that it was not killed
}

// start starts a process of the app, and does not wait until it responds.
func (a *App) start() error {
	process, err := a.cluster.spawner.launch(filepath.Join(a.cluster.dir, "app-"+a.fileName()+".log"), a.cluster.dir, a.location.command(a.command()...))
	if err != nil {
		return err
	}
	a.processes = append(a.processes, appProcess{process: process, records: newRecords(a.recordsFile())})
	return nil
}

// recordsFile returns the records file of the next process.
func (a *App) recordsFile() string {
	return filepath.Join(a.cluster.dir, fmt.Sprintf("app-%s-%d.records", a.fileName(), len(a.processes)))
}

// fileName returns the name of the app as a part of file names.
func (a *App) fileName() string { return strings.ReplaceAll(a.name, "/", "-") }

// command returns the command line of the next process, with flags at its end.
func (a *App) command(flags ...string) []string {
	return slices.Concat([]string{a.cluster.opts.Binaries.App, "-name", a.name, "-listen", a.Addr, "-records", a.recordsFile()}, a.cluster.opts.AppFlags, flags)
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

// Kill sends SIGKILL to the app and waits until it has ended.
func (a *App) Kill(tb testing.TB) {
	tb.Helper()
	process, faultIndex := &a.processes[len(a.processes)-1], len(a.cluster.faults)
	a.endFault = a.cluster.RecordFault(history.Fault{Kind: history.AppDown, Node: a.name})
	if err := process.process.kill(); err != nil {
		tb.Fatal(err)
	}
	process.killedAt = history.Now()
	a.cluster.faults[faultIndex].LatestExit = process.killedAt
}

// Hang stops the app with SIGSTOP, and records that. The function that it returns continues the app.
func (a *App) Hang(tb testing.TB) (resume func()) {
	tb.Helper()
	endFault := a.cluster.RecordFault(history.Fault{Kind: history.AppHung, Node: a.name})
	a.Signal(tb, syscall.SIGSTOP)
	return func() {
		a.Signal(tb, syscall.SIGCONT)
		endFault()
	}
}

// Signal sends a signal to the app. After SIGSTOP it waits until the app has stopped, because its
// threads can still read requests until the kernel has stopped each of them.
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

// Release continues all requests that wait for this name (App-Hang). Later requests do not wait.
func (a *App) Release(tb testing.TB, name string) {
	tb.Helper()
	if err := a.control(tb.Context(), "/release?name="+url.QueryEscape(name), nil); err != nil {
		tb.Fatal(err)
	}
}

// AwaitHanging waits until this number of requests wait for a name (App-Hang).
func (a *App) AwaitHanging(tb testing.TB, name string, count int) {
	tb.Helper()
	Await(tb, fmt.Sprintf("%d requests hang in app %s", count, a.name), func() error {
		var hanging int
		if err := a.control(tb.Context(), "/hanging?name="+url.QueryEscape(name), &hanging); err != nil {
			return err
		}
		if hanging != count {
			return fmt.Errorf("%d hang", hanging)
		}
		return nil
	})
}

// HealthyText is the text in the body of /health while the app is healthy.
const HealthyText = "healthy"

// SetUnhealthy makes /health return 503, or 200 again if unhealthy is false. The app keeps serving
// requests.
func (a *App) SetUnhealthy(tb testing.TB, unhealthy bool) {
	tb.Helper()
	status := http.StatusOK
	if unhealthy {
		status = http.StatusServiceUnavailable
	}
	a.SetHealth(tb, status, HealthyText)
}

// SetHealth sets the status and the text in the body of /health. The body is a JSON object with the method, the host
// and the Accept header of the request, and with the text. The app keeps serving requests.
func (a *App) SetHealth(tb testing.TB, status int, text string) {
	tb.Helper()
	if err := a.control(tb.Context(), fmt.Sprintf("/set-health?status=%d&text=%s", status, url.QueryEscape(text)), nil); err != nil {
		tb.Fatal(err)
	}
}

// ClearCache makes an app with cached counters drop them from memory.
func (a *App) ClearCache(tb testing.TB) {
	tb.Helper()
	if err := a.control(tb.Context(), "/forget", nil); err != nil {
		tb.Fatal(err)
	}
}

// ClosePort makes the app refuse connections for a duration, without stopping its process. With
// closeConns, the app also closes its open connections.
func (a *App) ClosePort(tb testing.TB, duration time.Duration, closeConns bool) {
	tb.Helper()
	if err := a.control(tb.Context(), fmt.Sprintf("/close-port?for=%v&all=%t", duration, closeConns), nil); err != nil {
		tb.Fatal(err)
	}
}

// Executions returns how often this app ran the request with this ID.
func (a *App) Executions(tb testing.TB, id string) int {
	tb.Helper()
	var count int
	if err := a.control(tb.Context(), "/executions?id="+url.QueryEscape(id), &count); err != nil {
		tb.Fatal(err)
	}
	return count
}

// controlTimeout limits a control request to an app.
const controlTimeout = 5 * time.Second

// control sends a control request to the app, and decodes the response into target.
func (a *App) control(ctx context.Context, path string, target any) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.Addr+path, nil)
	if err != nil {
		return err
	}
	return a.cluster.do(r, target)
}

// runs reads the records of all processes of the app.
func (a *App) runs() ([]history.Run, error) {
	var all []history.Run
	for _, process := range a.processes {
		if err := process.records.read(); err != nil {
			return nil, err
		}
		endedWithNode := a.cluster.opts.Embedded && !process.process.Running()
		if endedWithNode && process.killedAt == 0 {
			process.killedAt = process.process.exitedAt
		}
		all = append(all, process.runs()...)
	}
	return all, nil
}

// runs returns the runs that the process has recorded. The unfinished runs of a process that was killed
// ended with that process, as aborted runs.
func (p *appProcess) runs() []history.Run {
	runs := slices.Clone(p.records.runs)
	for i := range runs {
		if runs[i].End == 0 && p.killedAt != 0 {
			runs[i].End, runs[i].Aborted = p.killedAt, true
		}
	}
	return runs
}

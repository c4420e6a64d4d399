package process

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/internal/logfile"
	"shardway/internal/logsafe"
	"shardway/proxy/accesslog"
)

// replacedLogGrace is how long requests that started before a reload can still write to a replaced
// access log. Later lines are lost.
const replacedLogGrace = time.Minute

// accessLogs is the current access log and the ones that it has replaced.
type accessLogs struct {
	log zerolog.Logger

	mu struct {
		sync.Mutex
		path         string             // --access-log
		file         *logfile.File      // current log; nil means off
		stopFile     context.CancelFunc // stops the goroutine of file; nil if it was not started yet
		files        []*logfile.File    // current and replaced logs
		startedFiles int                // number of files, from the first one, whose goroutines were started
	}
	ctx     context.Context //nolint:containedctx // context of run; nil before
	writers sync.WaitGroup  // the goroutines of logs
}

// prepare opens the access log at path, or reopens the current log if the path is the same. The
// log has no effect before replace.
func (a *accessLogs) prepare(path string) (*logfile.File, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case path == config.AccessOff:
		return nil, nil //nolint:nilnil // nil means no log
	case path == a.mu.path && a.mu.file != nil:
		return a.mu.file, a.mu.file.Reopen()
	case path == config.AccessStdout:
		return logfile.ToWriter(os.Stdout, a.log), nil
	}
	return logfile.Open(path, a.log)
}

// replace makes file the current log.
func (a *accessLogs) replace(path string, file *logfile.File) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if file == a.mu.file {
		return
	}
	if stopCurrent := a.mu.stopFile; stopCurrent != nil {
		time.AfterFunc(replacedLogGrace, stopCurrent)
	}
	a.mu.path, a.mu.file, a.mu.stopFile = path, file, nil
	if file != nil {
		a.mu.files = append(a.mu.files, file)
	}
	a.startLocked()
}

// startLocked starts the goroutines of new logs if run has been called. mu must be held.
func (a *accessLogs) startLocked() {
	if a.ctx == nil {
		return
	}
	for ; a.mu.startedFiles < len(a.mu.files); a.mu.startedFiles++ {
		file := a.mu.files[a.mu.startedFiles]
		ctx, cancel := context.WithCancel(a.ctx)
		a.writers.Go(func() {
			defer cancel()
			file.Run(ctx)
		})
		if file == a.mu.file {
			a.mu.stopFile = cancel
		}
	}
}

// run writes the logs until ctx ends. It returns when all lines are written.
func (a *accessLogs) run(ctx context.Context) {
	a.mu.Lock()
	a.ctx = ctx
	a.startLocked() //nolint:contextcheck // the context is stored in ctx
	a.mu.Unlock()
	<-ctx.Done()
	a.writers.Wait()
}

// lostLines returns the number of lost lines of the current and all replaced logs. The metric is a
// counter, so it must not decrease when a log is replaced.
func (a *accessLogs) lostLines() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	lost := uint64(0)
	for _, file := range a.mu.files {
		lost += file.Lost()
	}
	return float64(lost)
}

// accessLogConfig returns the access log options of the proxy, or nil if file is nil. Lines are escaped,
// because clients choose parts of them.
func accessLogConfig(conf *config.Config, file *logfile.File) *accesslog.Config {
	if file == nil {
		return nil
	}
	return &accesslog.Config{Log: zerolog.New(logsafe.NewEscaper(file)), Keys: conf.AccessLogKeys, Query: conf.AccessLogQuery}
}

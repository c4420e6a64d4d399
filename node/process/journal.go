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
	"shardway/proxy"
)

// oldLog is for how long a replaced access log is still written to by requests
// that began before; lines that come later are lost.
const oldLog = time.Minute

// journal is the access log, and those it replaced.
type journal struct {
	log zerolog.Logger

	mu struct {
		sync.Mutex
		path  string        // as the settings say
		file  *logfile.File // nil: off
		all   []*logfile.File
		begun int                // so many of all run, or have run
		stop  context.CancelFunc // of file; nil: it does not run yet
	}
	running context.Context //nolint:containedctx // of run; nil before it
	writers sync.WaitGroup
}

// open opens what the settings say: the log there is if it is the same, else a
// new one. Nothing changes before use.
func (j *journal) open(path string) (*logfile.File, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case path == config.AccessOff:
		return nil, nil //nolint:nilnil // no log
	case path == j.mu.path && j.mu.file != nil:
		return j.mu.file, j.mu.file.Reopen()
	case path == config.AccessStdout:
		return logfile.To(os.Stdout, j.log), nil
	}
	return logfile.Open(path, j.log)
}

// use makes file the log.
func (j *journal) use(path string, file *logfile.File) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if file == j.mu.file {
		return
	}
	if old := j.mu.stop; old != nil {
		time.AfterFunc(oldLog, old)
	}
	j.mu.path, j.mu.file, j.mu.stop = path, file, nil
	if file != nil {
		j.mu.all = append(j.mu.all, file)
	}
	j.start()
}

// start runs the logs that do not run yet, if the process does. With mu held.
func (j *journal) start() {
	if j.running == nil {
		return
	}
	for ; j.mu.begun < len(j.mu.all); j.mu.begun++ {
		file := j.mu.all[j.mu.begun]
		ctx, cancel := context.WithCancel(j.running)
		j.writers.Go(func() {
			defer cancel()
			file.Run(ctx)
		})
		if file == j.mu.file {
			j.mu.stop = cancel
		}
	}
}

// run writes until ctx ends, and returns when all is written.
func (j *journal) run(ctx context.Context) {
	j.mu.Lock()
	j.running = ctx
	j.start() //nolint:contextcheck // it ends with stop
	j.mu.Unlock()
	<-ctx.Done()
	j.writers.Wait()
}

// lost returns the number of lines that were lost.
func (j *journal) lost() float64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := uint64(0)
	for _, f := range j.mu.all {
		n += f.Lost()
	}
	return float64(n)
}

// accessTo is what the proxy is told of a log.
func accessTo(c *config.Config, file *logfile.File) *proxy.Access {
	if file == nil {
		return nil
	}
	return &proxy.Access{Log: zerolog.New(logsafe.NewEscaper(file)), Keys: c.AccessLogKeys, Query: c.AccessLogQuery}
}

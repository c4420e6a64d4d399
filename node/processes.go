package node

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/ack"
	"shardway/internal/procguard"
	"shardway/node/childproc"
	"shardway/node/eventlog"
	"shardway/node/shutdown"
)

// processesStartTimeout limits the wait for the processes of an earlier run of this node. They exit within moments
// after that run, unless one of them hangs in the kernel.
const processesStartTimeout = 30 * time.Second

// errUnsafeTakeover stops a node that starts the processes of its app in a cluster with takeover immediate.
var errUnsafeTakeover = errors.New("node: takeover = \"immediate\" in the settings of the cluster is not possible with --exec, because another node may start a process before the one here has ended: run shardway settings --takeover lease, or start this node without --exec")

// mayRunProcesses reports whether a node may run processes of its app under the given timing of the cluster.
func mayRunProcesses(timing ack.Timing) bool { return timing.Takeover != ack.TakeoverImmediate }

// attachProcesses connects the supervisor of the processes of the app to this node.
func (n *Node) attachProcesses() {
	if n.options.Processes == nil {
		return
	}
	n.processes = &processService{node: string(n.self), supervisor: n.options.Processes, hasher: n.hasher}
	n.options.Processes.Attach(childproc.Owner{
		Usage:    n.proxy.ProcessPools(),
		Deadline: n.processDeadline,
		HashKey:  n.processes.hashOfKey,
		Fail: func(err error) {
			n.failures.fail(errors.Join(errors.New("node: the app's processes cannot be stopped reliably"), err))
		},
		OnFailure: func(f childproc.Failure) {
			n.events.Add(eventlog.ProcessFailed(n.self, f.Shard, f.Count, f.Reason))
		},
	})
}

// processDeadline returns when the processes of the app must be sent SIGTERM and SIGKILL, unless the lease is renewed
// first. SIGKILL is sent when running requests are aborted. No other node takes over earlier, unless it has evidence
// that this node crashed. SIGTERM is sent halfway between the end of the lease and SIGKILL. Both times are times of
// CLOCK_BOOTTIME.
// ok is false without a lease, and if processes must not run.
func (n *Node) processDeadline() (term, kill time.Duration, ok bool) {
	leaseEnd, abortAt := n.router.LeaseEnd(), n.router.AbortTime()
	if leaseEnd == 0 || abortAt == 0 || !mayRunProcesses(n.fsm.state.Load().Timing()) {
		return 0, 0, false
	}
	now, clockNow := procguard.Boottime(), n.options.Clock.Precise() // in this order: a pause in between must not extend the time
	kill = now + abortAt - clockNow
	return kill - (abortAt-leaseEnd)/2, kill, true
}

// startProcesses starts the guard of the processes of the app, and registers its stop function in s.
func (n *Node) startProcesses(ctx context.Context, s *shutdown.Stack) error {
	if n.options.Processes == nil {
		return nil
	}
	startCtx, cancel := context.WithTimeout(ctx, processesStartTimeout)
	defer cancel()
	if err := n.options.Processes.Start(startCtx); err != nil {
		return err
	}
	s.Push("processes of the app", n.options.Processes.Close)
	return nil
}

// processMetrics returns the metrics of the processes of the app.
func processMetrics(supervisor *childproc.Supervisor) (all []prometheus.Collector) {
	if supervisor == nil { // export the metrics as 0, so that alert rules find them
		supervisor = childproc.New(childproc.Options{})
	}
	for _, state := range []childproc.State{childproc.Starting, childproc.Ready, childproc.Stopping} {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "shardway_exec_processes", ConstLabels: prometheus.Labels{"state": state.String()}, Help: "Number of processes of the app that this node runs, by state.",
		}, func() float64 { return float64(supervisor.CountState(state)) }))
	}
	return append(all,
		gaugeFunc("exec_processes_max", "Number of processes of the app that this node may run (--exec-max).", func() float64 { return float64(supervisor.Max()) }),
		gaugeFunc("exec_failing", "Number of keys or shards whose process of the app fails repeatedly.", func() float64 { return float64(len(supervisor.Failures())) }),
		counterFunc("exec_starts_total", "Total number of processes of the app that were started.", func() float64 { return float64(supervisor.Counts().Started) }),
		counterFunc("exec_failures_total", "Total number of processes of the app that exited without being stopped by the node, or never became ready.", func() float64 { return float64(supervisor.Counts().Failed) }),
		counterFunc("exec_kills_total", "Total number of processes of the app that got SIGKILL because they did not end in time.", func() float64 { return float64(supervisor.Counts().Killed) }),
		counterFunc("exec_idle_stops_total", "Total number of processes of the app that were stopped because they were not used.", func() float64 { return float64(supervisor.Counts().IdleStops) }),
		counterFunc("exec_refused_total", "Total number of starts that were refused because all processes of the app were in use (--exec-max).", func() float64 { return float64(supervisor.Counts().Refused) }),
	)
}

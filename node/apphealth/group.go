package apphealth

import (
	"context"
	"sync"

	"shardway/ack"
	ackagent "shardway/ack/agent"
)

// Group contains the checkers of all app instances of a node. Any goroutine may use it.
type Group struct {
	checkers []*Checker // by instance; nil means that the instance is not configured
}

// NewGroup returns the group of the checkers, which are indexed by instance. A nil checker stands for
// an instance that is not configured. There must be at least one checker.
func NewGroup(checkers ...*Checker) *Group { return &Group{checkers: checkers} }

// each calls f for the checker of each configured instance.
func (g *Group) each(f func(*Checker)) {
	for _, checker := range g.checkers {
		if checker != nil {
			f(checker)
		}
	}
}

// Len returns the number of instances, including those that are not configured.
func (g *Group) Len() int { return len(g.checkers) }

// At returns the checker of an instance; nil means that it is not configured.
func (g *Group) At(instance int) *Checker {
	if instance < 0 || instance >= len(g.checkers) {
		return nil
	}
	return g.checkers[instance]
}

// IsHealthy reports whether an instance is configured and healthy.
func (g *Group) IsHealthy(instance int) bool {
	checker := g.At(instance)
	return checker != nil && checker.Healthy()
}

// Healthy reports whether an instance is healthy.
func (g *Group) Healthy() bool {
	healthy := false
	g.each(func(c *Checker) { healthy = healthy || c.Healthy() })
	return healthy
}

// Checked reports whether every instance has been checked at least once.
func (g *Group) Checked() bool {
	checked := true
	g.each(func(c *Checker) { checked = checked && c.Checked() })
	return checked
}

// LastError returns the error of the last check of the first instance that failed. It is empty if
// all checks passed.
func (g *Group) LastError() string {
	first := ""
	g.each(func(c *Checker) {
		if first == "" {
			first = c.LastError()
		}
	})
	return first
}

// Report returns the details of the health of the app as a whole.
func (g *Group) Report() ack.AppHealth {
	app := ack.AppHealth{Failing: true, Refused: true, Starting: true}
	g.each(func(c *Checker) {
		report := c.Report()
		app.Failing = app.Failing && report.Failing
		app.Refused = app.Refused && report.Refused
		app.Starting = app.Starting && report.Starting
		app.FlapCount = max(app.FlapCount, report.FlapCount)
	})
	return app
}

// Checks returns the results of the checks, by instance.
func (g *Group) Checks() []ackagent.InstanceCheck {
	checks := make([]ackagent.InstanceCheck, len(g.checkers))
	for i, checker := range g.checkers {
		if checker == nil {
			checks[i].Absent = true
			continue
		}
		checks[i] = ackagent.InstanceCheck{Unhealthy: !checker.Healthy(), Health: checker.Report()}
	}
	return checks
}

// SetSettings replaces the settings of all checkers, starting with their next checks.
func (g *Group) SetSettings(s Settings) {
	g.each(func(c *Checker) { c.SetSettings(s) })
}

// Run checks all instances until ctx ends.
func (g *Group) Run(ctx context.Context) {
	var running sync.WaitGroup
	g.each(func(c *Checker) { running.Go(func() { c.Run(ctx) }) })
	running.Wait()
}

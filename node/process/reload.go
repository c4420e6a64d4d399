package process

import (
	"fmt"

	"shardway/config"
	"shardway/internal/logfile"
	"shardway/proxy"
)

// live is what a running process takes over from its settings, all of it ready
// to be used.
type live struct {
	cert   *certificate
	file   *logfile.File
	access string // where file is
	set    proxy.Settings
	keys   string // the key configuration in canonical form
}

// prepare opens and reads all that the settings name. An error has changed
// nothing.
func (p *Process) prepare(c *config.Config) (live, error) {
	var l live
	var err error
	if l.set, err = proxySettings(c); err != nil {
		return live{}, err
	}
	if l.keys, err = c.KeyConfig().Canonical(); err != nil {
		return live{}, err
	}
	if l.cert, err = readCertificate(c.TLSCert, c.TLSKey); err != nil {
		return live{}, err
	}
	if l.file, err = p.journal.open(c.AccessLog); err != nil {
		return live{}, fmt.Errorf("--access-log: %w; name a file in a directory that this user may write to", err)
	}
	l.access, l.set.Access = c.AccessLog, accessTo(c, l.file)
	return l, nil
}

// NotReloaded notes that there are no settings to take over, because of a mistake.
func (p *Process) NotReloaded(err error) { p.reloads.note(err) }

// Reload takes over what a running node can, all at once or, with an error,
// nothing of it, and says in one line of the log what it was and what else has
// changed and needs a restart. Calls come one after the other. It also reads
// certificates again and reopens the access log.
func (p *Process) Reload(next *config.Config) (err error) {
	defer func() { p.reloads.note(err) }()
	l, err := p.prepare(next)
	if err != nil {
		return err
	}
	p.front.replace(l.cert)
	p.journal.use(l.access, l.file)
	p.node.Apply(l.set)
	p.node.ApplyHealth(health(next))
	p.node.ApplySettings(next.RunningSettings(p.started))
	p.node.ApplyKeys(l.keys)
	p.lameDuck.Store(int64(next.LameDuck))
	changed, kept := next.Since(p.live).Live, next.Since(p.started).Restart
	p.live = next
	p.log.Info().Strs("changed", changed).Strs("needs_restart", kept).Msg("settings reloaded")
	return nil
}

package process

import (
	"fmt"

	"shardway/config"
	"shardway/internal/logfile"
	"shardway/proxy"
)

// reloadable contains the parts of the settings that a running process can change, ready to use.
type reloadable struct {
	cert          *certificate
	accessFile    *logfile.File
	accessPath    string // path of accessFile
	proxySettings proxy.Settings
	keys          string // canonical key configuration
}

// prepare opens and reads everything that the reloadable settings refer to. It has no effect if it
// returns an error.
func (p *Process) prepare(conf *config.Config) (reloadable, error) {
	var prepared reloadable
	var err error
	if prepared.proxySettings, err = proxySettings(conf); err != nil {
		return reloadable{}, err
	}
	if prepared.keys, err = conf.KeyConfig().Canonical(); err != nil {
		return reloadable{}, err
	}
	if prepared.cert, err = readCertificate(conf.TLSCert, conf.TLSKey); err != nil {
		return reloadable{}, err
	}
	if prepared.accessFile, err = p.accessLogs.prepare(conf.AccessLog); err != nil {
		return reloadable{}, fmt.Errorf("--access-log: %w; name a file in a directory that this user may write to", err)
	}
	prepared.accessPath = conf.AccessLog
	prepared.proxySettings.Access = accessLogConfig(conf, prepared.accessFile)
	return prepared, nil
}

// RecordReloadFailure records that a reload failed because the settings are invalid.
func (p *Process) RecordReloadFailure(err error) { p.reloadStatus.record(err) }

// Reload applies all settings that a running node can change, reloads certificates and reopens the
// access log. If it returns an error, nothing has changed. It logs which settings have changed,
// and which changes need a restart. Calls must not overlap.
func (p *Process) Reload(next *config.Config) (err error) {
	defer func() { p.reloadStatus.record(err) }()
	if services := serviceSpecs(next); len(services) > 0 {
		if err = p.node.CheckServices(services); err != nil {
			return err
		}
	}
	prepared, err := p.prepare(next)
	if err != nil {
		return err
	}
	p.appPort.replace(prepared.cert)
	p.accessLogs.replace(prepared.accessPath, prepared.accessFile)
	p.node.Apply(prepared.proxySettings)
	p.node.ApplyHealth(healthOptions(next))
	p.node.API().ApplySettings(next.RunningSettings(p.initial))
	p.node.ApplyKeys(prepared.keys)
	p.node.ApplyWebhook(next.Webhook)
	p.lameDuck.Store(int64(next.LameDuck))
	changed := next.ChangesSince(p.applied).Live
	needsRestart := next.ChangesSince(p.initial).Restart
	p.applied = next
	p.log.Info().Strs("changed", changed).Strs("needs_restart", needsRestart).Msg("settings reloaded")
	return nil
}

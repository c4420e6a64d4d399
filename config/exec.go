package config

import (
	"strings"

	"shardway/internal/execcommand"
	"shardway/keysource"
)

// checkExec checks the command of the processes of the app.
func checkExec(text string) *valueProblem {
	if _, err := execcommand.ParseCommand(text); err != nil {
		return &valueProblem{err.Error(), "write it like 'pocketbase serve --http {addr} --dir {dir}'"}
	}
	return nil
}

// execRules returns the rules for the processes of the app.
func (c *Config) execRules() []rule {
	if c.Exec == "" {
		return nil
	}
	command, err := execcommand.ParseCommand(c.Exec)
	usesKey := err == nil && command.Uses(execcommand.PlaceholderKey)
	isPerKey := c.ExecPer == ExecPerKey
	return []rule{
		{"exec", "upstream", c.Upstream == "", "the node starts the app itself, but upstream names an app that runs already", "remove one of exec and upstream"},
		{"exec", "", !c.Embedded, "the app is in this process", "remove it"},
		{"hooks", "exec", c.Hooks == "", "with exec, starting and stopping a process takes the place of hooks", "remove it; the app saves its state on SIGTERM"},
		{"health", "exec", c.Health == "", "with exec there is no single app to check", "remove it; use exec-ready to find out when a process is ready"},
		{"exec", "exec-per", isPerKey || !usesKey, "it contains {key}, but exec-per is shard, and a shard has many keys", "use {shard}, or set exec-per to key"},
		{"exec-ready", "exec-per", isPerKey || !strings.Contains(c.ExecReady, "{key}"), "it contains {key}, but exec-per is shard", "leave {key} out, or set exec-per to key"},
		{"on-missing-key", "exec", c.OnMissingKey != keysource.MissingLocal, "with exec, a request without a key has no process", "use reject, hash-path or cookie"},
		{"takeover", "exec", c.Takeover != TakeoverImmediate, "another node may start a process before the one here has ended", "use lease or timeout"},
		{"max-shard-conns", "exec", c.ExecPer == ExecPerShard || !c.isSet("max-shard-conns"), "with exec-per key, each process has its own connections", "use max-upstream-conns, which limits the connections of each process"},
	}
}

// execAdvice reports settings of processes that have no effect.
func (c *Config) execAdvice() (advice []Problem) {
	if c.Exec != "" {
		return nil
	}
	for _, name := range []string{"exec-per", "exec-dir", "exec-ready", "exec-idle", "exec-max"} {
		if c.isSet(name) {
			advice = append(advice, c.newProblem(name, &valueProblem{"the node starts no processes, because exec is not set", "set exec, or remove it"}))
		}
	}
	return advice
}

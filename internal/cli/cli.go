package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"shardway/config"
	"shardway/internal/version"
)

// Exit codes. exitCodes describes them.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitOutage = 3
)

// exitCode is an exit code with its description in the help.
type exitCode struct {
	code    int
	meaning string
}

// exitCodes returns all exit codes.
func exitCodes() []exitCode {
	return []exitCode{
		{exitOK, "success"},
		{exitFailed, "failure, or the condition did not hold before --timeout; a line explains it"},
		{exitUsage, "invalid command line or configuration; each error has a line"},
		{exitOutage, "the cluster has an outage: some requests are not served"},
	}
}

// usageError is the error for invalid or contradictory arguments.
type usageError string

// Error returns the cause and the remedy.
func (ue usageError) Error() string { return string(ue) }

// errReported is the result of a command that has already printed the errors of the configuration.
var errReported = errors.New("cli: the configuration is wrong")

// errOutage is the result of a command that has printed an outage.
var errOutage = errors.New("cli: there is an outage")

// grammar contains all commands.
type grammar struct {
	Run        runCommand        `cmd:"" passthrough:"" help:"Run a node."`
	Demo       demoCommand       `cmd:"" help:"Run three nodes with a sample app on this machine."`
	DemoApp    demoAppCommand    `cmd:"" help:"Run the sample app alone." hidden:""`
	Status     statusCommand     `cmd:"" help:"Show one node's view of the cluster."`
	Nodes      nodesCommand      `cmd:"" help:"List the nodes."`
	Shards     shardsCommand     `cmd:"" help:"List the shards and their owners."`
	Service    serviceCommand    `cmd:"" help:"List, add or remove services."`
	Lock       lockCommand       `cmd:"" help:"List, acquire, renew or release locks."`
	Endpoints  endpointsCommand  `cmd:"" help:"List the addresses of nodes and services."`
	Events     eventsCommand     `cmd:"" help:"Show the events of a node."`
	Locate     locateCommand     `cmd:"" help:"Show the owner of a key."`
	Hot        hotCommand        `cmd:"" help:"Show the busiest shards and keys."`
	Processes  processesCommand  `cmd:"" help:"List the processes of the app that a node runs."`
	WebSockets websocketsCommand `cmd:"" name:"websockets" help:"Count WebSockets by shard, or test a move."`
	StepDown   stepDownCommand   `cmd:"" help:"Make the leader transfer its leadership."`
	Remove     removeCommand     `cmd:"" help:"Remove a node from the cluster permanently."`
	Joins      joinsCommand      `cmd:"" help:"List the nodes that join, or that request it."`
	Approve    approveCommand    `cmd:"" help:"Let a node join that has requested it."`
	Refuse     refuseCommand     `cmd:"" help:"Refuse the join request of a node."`
	Drain      drainCommand      `cmd:"" help:"Move all shards off a node."`
	Cordon     cordonCommand     `cmd:"" help:"Assign no further shards to a node."`
	MarkFailed markFailedCommand `cmd:"" name:"mark-failed" help:"Exclude a node as if it had failed."`
	Uncordon   uncordonCommand   `cmd:"" help:"End the drain, cordon or mark-failed of a node."`

	Announce     announceCommand     `cmd:"" passthrough:"" help:"Announce the addresses of a service."`
	AppRestarted appRestartedCommand `cmd:"" help:"Report that a node's app has restarted."`

	Pause      pauseCommand      `cmd:"" help:"Pause planned moves of shards."`
	Resume     resumeCommand     `cmd:"" help:"Resume planned moves of shards."`
	Weight     weightCommand     `cmd:"" help:"Set a node's weight."`
	Pin        pinCommand        `cmd:"" help:"Assign a shard to a node or a zone."`
	Unpin      unpinCommand      `cmd:"" help:"Remove the pin of a shard."`
	Quarantine quarantineCommand `cmd:"" help:"Refuse all requests of a key, or list such keys."`
	Rebalance  rebalanceCommand  `cmd:"" help:"Propose a new shard map now."`
	Plan       planCommand       `cmd:"" help:"Show which shards the next map moves, and why."`
	Policy     policyCommand     `cmd:"" help:"Show requests of operators, or restrict shards to a role."`
	Backup     backupCommand     `cmd:"" help:"Save the cluster's control state to a file."`
	Restore    restoreCommand    `cmd:"" help:"Start a new cluster from a backup."`
	Recover    recoverCommand    `cmd:"" help:"Continue with one stopped node after quorum loss."`
	Keygen     keygenCommand     `cmd:"" help:"Generate a cluster secret, or a token."`
	Settings   settingsCommand   `cmd:"" help:"Show or change the cluster-wide settings."`
	Upgrade    upgradeCommand    `cmd:"" help:"Show or finalize an upgrade of all nodes."`
	Rotate     rotateCommand     `cmd:"" name:"rotate-secret" help:"Replace the secret of a running cluster."`
	Check      checkCommand      `cmd:"" passthrough:"" help:"Check the configuration of a node."`
	Doctor     doctorCommand     `cmd:"" help:"Diagnose the cluster with the views of all nodes."`
	Wait       waitCommand       `cmd:"" help:"Wait until the cluster, a node or a drain is ready."`
	Top        topCommand        `cmd:"" help:"Watch status, nodes and the busiest shards."`
	Debug      debugCommand      `cmd:"" help:"Write a diagnostic archive without secrets."`
	Completion completionCommand `cmd:"" help:"Write a completion script for a shell."`
	Version    versionCommand    `cmd:"" help:"Show the version, the commit and its date."`

	ShowVersion kong.VersionFlag `help:"Show the version." name:"version"`
}

// session contains the inputs and outputs of a command, apart from its arguments.
type session struct {
	environ []string
	out     io.Writer
	err     io.Writer
}

// Run runs one command and returns its exit code. args does not contain the program name. A
// long-running command, such as run, stops when ctx ends.
func Run(ctx context.Context, args, environ []string, out, errOut io.Writer) int {
	session := &session{environ: environ, out: out, err: errOut}
	var g grammar
	exited := false
	parser, err := kong.New(&g,
		kong.Name("shardway"),
		kong.Description(description()),
		kong.Vars{"version": version.Read().String()},
		kong.Writers(out, errOut),
		kong.Exit(func(int) { exited = true }), // after the help was written
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		durations(),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		return session.exitCodeOf(err)
	}
	command, err := parser.Parse(args)
	switch {
	case exited:
		return exitOK
	case err != nil:
		return session.reportUsageError(args, err)
	}
	return session.exitCodeOf(command.Run(session))
}

// description is the text above the commands in the help.
func description() string {
	var codes []string
	for _, exit := range exitCodes() {
		codes = append(codes, fmt.Sprintf("%d: %s", exit.code, exit.meaning))
	}
	return "A sharded HTTP reverse proxy for apps that keep state.\n\nExit codes: " + strings.Join(codes, "; ") + "."
}

// reportUsageError prints an error of the command-line parser and returns the exit code.
func (s *session) reportUsageError(args []string, err error) int {
	s.printError(describeUsageError(args, err))
	return exitUsage
}

// exitCodeOf returns the exit code for the result of a command. It first prints the error, unless the
// command has done so.
func (s *session) exitCodeOf(err error) int {
	if err == nil || errors.Is(err, config.ErrHelp) {
		return exitOK
	}
	if errors.Is(err, errReported) {
		return exitUsage
	}
	if errors.Is(err, errConfigDiffers) {
		return exitFailed
	}
	if errors.Is(err, errOutage) {
		return exitOutage
	}
	if usage, ok := errors.AsType[usageError](err); ok {
		s.printError(usage)
		return exitUsage
	}
	if invalid, ok := errors.AsType[*config.Error](err); ok {
		for _, problem := range invalid.Problems {
			s.printError(problem)
		}
		return exitUsage
	}
	s.printError(err)
	return exitFailed
}

// printError prints an error with the prefix "shardway: " on each line. Lines of another Shardway
// process may have the prefix already. The text may quote a node or a file, so control characters are
// replaced. Errors of the writer are ignored, because no other output is left.
func (s *session) printError(message any) {
	for line := range strings.SplitSeq(fmt.Sprint(message), "\n") {
		_, _ = fmt.Fprintf(s.err, "shardway: %s\n", strings.TrimPrefix(strings.Map(printable, line), "shardway: "))
	}
}

// Version is the version of this source tree.
const Version = version.Version

type versionCommand struct {
	JSON bool `help:"Write JSON." name:"json"`
}

// Run prints the version.
func (c *versionCommand) Run(session *session) error {
	build := version.Read()
	if c.JSON {
		return writeJSON(session.out, build)
	}
	text := build.String()
	_, err := fmt.Fprintln(session.out, text)
	return err
}

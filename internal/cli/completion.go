package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"shardway/config"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of bash, zsh, fish."`
}

// Help shows the install path of each script.
func (c *completionCommand) Help() string {
	return `Writes a script that completes commands and flags:

  bash   shardway completion bash > /etc/bash_completion.d/shardway
  zsh    shardway completion zsh > "${fpath[1]}/_shardway"
  fish   shardway completion fish > ~/.config/fish/completions/shardway.fish`
}

// Run writes the script of the selected shell.
func (c *completionCommand) Run(parsed *kong.Context, session *session) error {
	commands := completionSpecs(parsed.Model.Node)
	write := map[string]func(io.Writer, []completionCommandSpec){"bash": writeBash, "zsh": writeZsh, "fish": writeFish}[c.Shell]
	var b strings.Builder
	write(&b, commands)
	_, err := io.WriteString(session.out, b.String())
	return err
}

// completionCommandSpec describes a command for the completion scripts.
type completionCommandSpec struct {
	name, help string
	flags      []completionFlagSpec
	words      []string // valid first arguments; empty means any
	// listOwners is a shell command that lists the valid first arguments, if they are nodes of a running
	// cluster. Empty means that they are not.
	listOwners string
}

// Commands of the completion scripts that list the nodes of the cluster, or the nodes and their app instances. A name
// with other characters than these is not offered, because shells expand the words of a completion.
const (
	listNodes     = `shardway nodes 2>/dev/null | awk '$1 ~ "^[A-Za-z0-9._-]+$" && $1 != "NODE" && $1 != "INSTANCE" {print $1}'`
	listInstances = `shardway nodes 2>/dev/null | awk '$1 ~ "^[A-Za-z0-9._/-]+$" && $1 != "NODE" && $1 != "INSTANCE" {print $1}'`
)

// completionFlagSpec describes a flag for the completion scripts.
type completionFlagSpec struct {
	name, help string
	value      string   // placeholder; empty means a switch without a value
	choices    []string // valid values; empty means any
}

// isFile reports whether the value is a file or a directory.
func (f completionFlagSpec) isFile() bool {
	return strings.Contains(f.value, "FILE") || f.value == "DIR"
}

// completionSpecs returns the visible commands, sorted by name.
func completionSpecs(root *kong.Node) []completionCommandSpec {
	var specs []completionCommandSpec
	for _, node := range root.Children {
		if node.Hidden {
			continue
		}
		command := completionCommandSpec{name: node.Name, help: node.Help}
		for _, flag := range slices.Concat(node.AllFlags(true)...) {
			command.flags = append(command.flags, flagSpec(flag))
		}
		if len(node.Positional) > 0 && node.Positional[0].Enum != "" {
			command.words = node.Positional[0].EnumSlice()
		}
		command.listOwners = ownerCommand(node)
		switch {
		case node.Name == "announce":
			command.flags = append(command.flags, settingFlags(config.AnnounceFlags())...)
		case node.Passthrough:
			command.flags = append(command.flags, settingFlags(config.Flags())...)
		}
		if node.Name == "check" {
			command.flags = append(command.flags, checkFlags()...)
		}
		specs = append(specs, command)
	}
	slices.SortFunc(specs, func(a, b completionCommandSpec) int { return strings.Compare(a.name, b.name) })
	return specs
}

// ownerCommand returns completionCommandSpec.listOwners of a command.
func ownerCommand(node *kong.Node) string {
	switch {
	case len(node.Positional) == 0 || node.Positional[0].Name != "node":
		return ""
	case strings.Contains(node.Positional[0].Help, "NODE/INSTANCE"):
		return listInstances
	}
	return listNodes
}

// flagSpec describes a flag that kong parses.
func flagSpec(flag *kong.Flag) completionFlagSpec {
	spec := completionFlagSpec{name: flag.Name, help: flag.Help}
	if !flag.IsBool() {
		spec.value = flag.FormatPlaceHolder()
	}
	if flag.Enum != "" {
		spec.choices = flag.EnumSlice()
	}
	return spec
}

// checkFlags returns the flags of check in addition to those of run.
func checkFlags() []completionFlagSpec {
	return []completionFlagSpec{
		{name: "all", help: "Show defaults, too."},
		{name: "json", help: "Write JSON."},
		{name: "against", help: "Compare with the cluster of the node at ADDR.", value: "ADDR"},
	}
}

// settingFlags converts flags that kong does not parse.
func settingFlags(flags []config.Flag) []completionFlagSpec {
	var specs []completionFlagSpec
	for _, flag := range flags {
		spec := completionFlagSpec{name: flag.Name, help: flag.Help, value: flag.Metavar}
		words := strings.Split(flag.Metavar, "|")
		isPlaceholder := flag.Metavar != strings.ToLower(flag.Metavar)
		if len(words) > 1 && !isPlaceholder {
			spec.choices = words
		}
		specs = append(specs, spec)
	}
	return specs
}

// writeBash writes a script that completes other arguments as file names.
func writeBash(w io.Writer, commands []completionCommandSpec) {
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // to a strings.Builder
	printf("# bash completion for shardway\n_shardway() {\n")
	printf("  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= at=0 i words=\n")
	printf("  for ((i = 1; i < COMP_CWORD; i++)); do\n    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; at=$i; break; }\n  done\n")
	printf("  case \"$command $prev\" in\n")
	for _, command := range commands {
		for _, flag := range command.flags {
			switch {
			case len(flag.choices) > 0:
				printf("    '%s --%s') COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", command.name, flag.name, strings.Join(flag.choices, " "))
			case flag.value != "":
				printf("    '%s --%s') COMPREPLY=(); return ;;\n", command.name, flag.name)
			}
		}
	}
	printf("  esac\n  case \"$command\" in\n    '') words='--help --version")
	for _, command := range commands {
		printf(" %s", command.name)
	}
	printf("' ;;\n")
	for _, command := range commands {
		printf("    %s) words='", command.name)
		for _, flag := range command.flags {
			printf("--%s ", flag.name)
		}
		printf("'")
		if len(command.words) > 0 {
			printf("; [[ $at -eq $((COMP_CWORD - 1)) && $cur != -* ]] && words='%s'", strings.Join(command.words, " "))
		}
		if command.listOwners != "" {
			printf("; [[ $at -eq $((COMP_CWORD - 1)) && $cur != -* ]] && words=$(%s)", command.listOwners)
		}
		printf(" ;;\n")
	}
	printf("  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o default -F _shardway shardway\n")
}

// writeZsh writes a script with descriptions of commands and flags.
func writeZsh(w io.Writer, commands []completionCommandSpec) {
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // to a strings.Builder
	escaper := strings.NewReplacer("'", `'\''`, "[", `\[`, "]", `\]`, ":", `\:`)
	printf("#compdef shardway\n_shardway_nodes() { compadd -- $(%s) }\n_shardway_instances() { compadd -- $(%s) }\n", listNodes, listInstances)
	printf("_shardway() {\n  if (( CURRENT == 2 )); then\n    local -a commands=(\n")
	for _, command := range commands {
		printf("      '%s:%s'\n", command.name, escaper.Replace(command.help))
	}
	printf("    )\n    _describe command commands\n    _arguments '--help[Show help.]' '--version[Show the version.]'\n    return\n  fi\n")
	printf("  local command=$words[2]\n  words=($words[1] ${words[3,-1]})\n  (( CURRENT-- ))\n  case $command in\n")
	for _, command := range commands {
		printf("    %s) _arguments", command.name)
		for _, flag := range command.flags {
			printf(" \\\n      '*--%s", flag.name)
			if flag.value != "" {
				printf("=")
			}
			printf("[%s]", escaper.Replace(flag.help))
			switch {
			case len(flag.choices) > 0:
				printf(":value:(%s)", strings.Join(flag.choices, " "))
			case flag.isFile():
				printf(":file:_files")
			case flag.value != "":
				printf(":%s: ", escaper.Replace(flag.value))
			}
			printf("'")
		}
		switch {
		case len(command.words) > 0:
			printf(" \\\n      '1:argument:(%s)' '*:argument: '", strings.Join(command.words, " "))
		case command.listOwners == listNodes:
			printf(" \\\n      '1:node:_shardway_nodes' '*:argument: '")
		case command.listOwners == listInstances:
			printf(" \\\n      '1:node:_shardway_instances' '*:argument: '")
		default:
			printf(" \\\n      '*:argument:_files'")
		}
		printf(" ;;\n")
	}
	printf("  esac\n}\n_shardway \"$@\"\n")
}

// writeFish writes a script with one complete command for each flag.
func writeFish(w io.Writer, commands []completionCommandSpec) {
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // to a strings.Builder
	quote := func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
	}
	printf("# fish completion for shardway\n")
	printf("complete -c shardway -n __fish_use_subcommand -f -l help -d 'Show help.'\n")
	printf("complete -c shardway -n __fish_use_subcommand -f -l version -d 'Show the version.'\n")
	for _, command := range commands {
		printf("complete -c shardway -n __fish_use_subcommand -f -a %s -d %s\n", command.name, quote(command.help))
	}
	for _, command := range commands {
		prefix := fmt.Sprintf("complete -c shardway -n '__fish_seen_subcommand_from %s'", command.name)
		if len(command.words) > 0 {
			printf("%s -f -a %s\n", prefix, quote(strings.Join(command.words, " ")))
		}
		if command.listOwners != "" {
			printf("%s -f -a %s\n", prefix, quote("("+command.listOwners+")"))
		}
		for _, flag := range command.flags {
			valueOption := ""
			switch {
			case len(flag.choices) > 0:
				valueOption = " -x -a " + quote(strings.Join(flag.choices, " "))
			case flag.isFile():
				valueOption = " -r -F"
			case flag.value != "":
				valueOption = " -x"
			}
			printf("%s -l %s%s -d %s\n", prefix, flag.name, valueOption, quote(flag.help))
		}
	}
}

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
func (c *completionCommand) Run(parsed *kong.Context, s *session) error {
	commands := completionSpecs(parsed.Model.Node)
	write := map[string]func(io.Writer, []completionCommandSpec){"bash": writeBash, "zsh": writeZsh, "fish": writeFish}[c.Shell]
	var b strings.Builder
	write(&b, commands)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// completionCommandSpec describes a command for the completion scripts.
type completionCommandSpec struct {
	name, help string
	flags      []completionFlagSpec
	words      []string // valid first arguments; empty means any
}

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
	var all []completionCommandSpec
	for _, n := range root.Children {
		if n.Hidden {
			continue
		}
		c := completionCommandSpec{name: n.Name, help: n.Help}
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				x := completionFlagSpec{name: f.Name, help: f.Help}
				if !f.IsBool() {
					x.value = f.FormatPlaceHolder()
				}
				if f.Enum != "" {
					x.choices = f.EnumSlice()
				}
				c.flags = append(c.flags, x)
			}
		}
		if len(n.Positional) > 0 && n.Positional[0].Enum != "" {
			c.words = n.Positional[0].EnumSlice()
		}
		if n.Passthrough {
			c.flags = append(c.flags, settingFlags()...)
		}
		if n.Name == "check" {
			c.flags = append(c.flags, completionFlagSpec{name: "all", help: "Show defaults, too."}, completionFlagSpec{name: "json", help: "Write JSON."}, completionFlagSpec{name: "against", help: "Compare with the cluster of the node at ADDR.", value: "ADDR"})
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b completionCommandSpec) int { return strings.Compare(a.name, b.name) })
	return all
}

// settingFlags returns the flags of run and check, which kong does not parse.
func settingFlags() []completionFlagSpec {
	var all []completionFlagSpec
	for _, f := range config.Flags() {
		x := completionFlagSpec{name: f.Name, help: f.Help, value: f.Metavar}
		if words := strings.Split(f.Metavar, "|"); len(words) > 1 && f.Metavar == strings.ToLower(f.Metavar) {
			x.choices = words
		}
		all = append(all, x)
	}
	return all
}

// writeBash writes a script that completes other arguments as file names.
func writeBash(w io.Writer, commands []completionCommandSpec) {
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // to a strings.Builder
	p("# bash completion for shardway\n_shardway() {\n")
	p("  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= at=0 i words=\n")
	p("  for ((i = 1; i < COMP_CWORD; i++)); do\n    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; at=$i; break; }\n  done\n")
	p("  case \"$command $prev\" in\n")
	for _, c := range commands {
		for _, f := range c.flags {
			switch {
			case len(f.choices) > 0:
				p("    '%s --%s') COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", c.name, f.name, strings.Join(f.choices, " "))
			case f.value != "":
				p("    '%s --%s') COMPREPLY=(); return ;;\n", c.name, f.name)
			}
		}
	}
	p("  esac\n  case \"$command\" in\n    '') words='--help --version")
	for _, c := range commands {
		p(" %s", c.name)
	}
	p("' ;;\n")
	for _, c := range commands {
		p("    %s) words='", c.name)
		for _, f := range c.flags {
			p("--%s ", f.name)
		}
		p("'")
		if len(c.words) > 0 {
			p("; [[ $at -eq $((COMP_CWORD - 1)) && $cur != -* ]] && words='%s'", strings.Join(c.words, " "))
		}
		p(" ;;\n")
	}
	p("  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o default -F _shardway shardway\n")
}

func writeZsh(w io.Writer, commands []completionCommandSpec) {
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // to a strings.Builder
	quoted := strings.NewReplacer("'", `'\''`, "[", `\[`, "]", `\]`, ":", `\:`)
	p("#compdef shardway\n_shardway() {\n  if (( CURRENT == 2 )); then\n    local -a commands=(\n")
	for _, c := range commands {
		p("      '%s:%s'\n", c.name, quoted.Replace(c.help))
	}
	p("    )\n    _describe command commands\n    _arguments '--help[Show help.]' '--version[Show the version.]'\n    return\n  fi\n")
	p("  local command=$words[2]\n  words=($words[1] ${words[3,-1]})\n  (( CURRENT-- ))\n  case $command in\n")
	for _, c := range commands {
		p("    %s) _arguments", c.name)
		for _, f := range c.flags {
			p(" \\\n      '*--%s", f.name)
			if f.value != "" {
				p("=")
			}
			p("[%s]", quoted.Replace(f.help))
			switch {
			case len(f.choices) > 0:
				p(":value:(%s)", strings.Join(f.choices, " "))
			case f.isFile():
				p(":file:_files")
			case f.value != "":
				p(":%s: ", quoted.Replace(f.value))
			}
			p("'")
		}
		switch {
		case len(c.words) > 0:
			p(" \\\n      '1:argument:(%s)' '*:argument: '", strings.Join(c.words, " "))
		default:
			p(" \\\n      '*:argument:_files'")
		}
		p(" ;;\n")
	}
	p("  esac\n}\n_shardway \"$@\"\n")
}

func writeFish(w io.Writer, commands []completionCommandSpec) {
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // to a strings.Builder
	quote := func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
	}
	p("# fish completion for shardway\n")
	p("complete -c shardway -n __fish_use_subcommand -f -l help -d 'Show help.'\n")
	p("complete -c shardway -n __fish_use_subcommand -f -l version -d 'Show the version.'\n")
	for _, c := range commands {
		p("complete -c shardway -n __fish_use_subcommand -f -a %s -d %s\n", c.name, quote(c.help))
	}
	for _, c := range commands {
		within := fmt.Sprintf("complete -c shardway -n '__fish_seen_subcommand_from %s'", c.name)
		if len(c.words) > 0 {
			p("%s -f -a %s\n", within, quote(strings.Join(c.words, " ")))
		}
		for _, f := range c.flags {
			how := ""
			switch {
			case len(f.choices) > 0:
				how = " -x -a " + quote(strings.Join(f.choices, " "))
			case f.isFile():
				how = " -r -F"
			case f.value != "":
				how = " -x"
			}
			p("%s -l %s%s -d %s\n", within, f.name, how, quote(f.help))
		}
	}
}

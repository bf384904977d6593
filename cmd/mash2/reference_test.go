package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/reference/flags.md anew")

// TestReferenceOfFlags: docs/reference/flags.md is what the commands say of themselves.
func TestReferenceOfFlags(t *testing.T) {
	const page = "../../docs/reference/flags.md"
	var b strings.Builder
	b.WriteString("# Flags of every command\n\nGenerated from the program by `make reference`. What the commands are for: [commands](commands.md).\n")
	referenceOf(&b, program().Root())
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != b.String() {
		t.Errorf("docs/reference/flags.md:%d: not what the program says: run make reference", firstDifference(string(is), b.String()))
	}
}

// firstDifference is the number of the first line in which two texts differ.
func firstDifference(a, b string) int {
	of := strings.Split(b, "\n")
	for i, line := range strings.Split(a, "\n") {
		if i >= len(of) || line != of[i] {
			return i + 1
		}
	}
	return len(of)
}

// referenceOf writes a command that does something, and those below it.
func referenceOf(b *strings.Builder, cmd *cobra.Command) {
	if cmd.Runnable() && cmd.HasParent() {
		fmt.Fprintf(b, "\n## %s\n\n%s.\n", cmd.CommandPath(), strings.TrimSuffix(cmd.Short, "."))
		if long := strings.TrimSpace(cmd.Long); long != "" && long != cmd.Short {
			fmt.Fprintf(b, "\n```text\n%s\n```\n", long)
		}
		fmt.Fprintf(b, "\n```text\n%s\n```\n", cmd.UseLine())
		if cmd.Example != "" {
			fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.Trim(cmd.Example, "\n"))
		}
		rows := 0
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { rows += flagRow(b, f, rows == 0) })
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { rows += flagRow(b, f, rows == 0) })
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" && sub.Name() != "help" {
			referenceOf(b, sub)
		}
	}
}

// flagRow writes a flag's row, after the table's head for the first one, and returns
// how many rows it wrote.
func flagRow(b *strings.Builder, f *pflag.Flag, first bool) int {
	if f.Hidden || f.Name == "help" {
		return 0
	}
	if first {
		b.WriteString("\n| flag | type | default | meaning |\n|---|---|---|---|\n")
	}
	name := "`--" + f.Name + "`"
	if f.Shorthand != "" {
		name += ", `-" + f.Shorthand + "`"
	}
	kind, usage := pflag.UnquoteUsage(f)
	if kind == "" {
		kind = f.Value.Type()
	}
	def := ""
	if f.DefValue != "" && f.DefValue != "[]" {
		def = "`" + f.DefValue + "`"
	}
	escape := strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;")
	if f.Deprecated != "" {
		usage += " Deprecated: " + f.Deprecated + "."
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, escape.Replace(kind), escape.Replace(def), escape.Replace(usage))
	return 1
}

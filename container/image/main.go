// Command image makes the image of mash2's program as an OCI layout, without a container
// engine: a layer with the program and the certificates of public authorities, an index
// over platforms, and a bill of materials beside each image as a referrer. The same
// programs give the same bytes, on any machine.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// programs are flags of the form linux/amd64=PATH.
type programs []program

func (p *programs) String() string { return fmt.Sprint(*p) }

func (p *programs) Set(text string) error {
	one, err := parseProgram(text)
	*p = append(*p, one)
	return err
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "", "folder to write the layout into; it must not exist")
	version := flags.String("version", "dev", "version of the program, and the name of the image in the layout")
	revision := flags.String("revision", "", "commit that the programs are built from")
	epoch := flags.Int64("epoch", 0, "time of every file and of the image, in seconds since 1970: SOURCE_DATE_EPOCH")
	var of programs
	flags.Var(&of, "program", "program of a platform, as linux/amd64=PATH; its bill of materials is PATH.cdx.json; may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || len(of) == 0 || flags.NArg() > 0 {
		return fmt.Errorf("usage: image --out FOLDER --program linux/amd64=PATH [--version V] [--revision COMMIT] [--epoch SECONDS]")
	}
	l := labels{version: *version, revision: *revision, created: time.Unix(*epoch, 0).UTC()}
	digest, err := write(*out, l, of)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, digest)
	return err
}

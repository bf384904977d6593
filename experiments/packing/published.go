package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node"
	"github.com/mash2-io/mash2/planning/node/instance"
)

// family sums up the instances of one class and number of items.
type family struct {
	class                     string
	items                     int
	instances, best, proven   int
	excess                    int // bins above the optimum, or the best bound known
	seconds, longest, ffdOver float64
}

// published packs instances of vector bin packing with at most that many items
// and compares with the optima beside them: <name>.tar.gz holds the instances
// of <name>_known.csv.
func published(dir string, each float64, above, most, every int) error {
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil {
		return err
	}
	if len(archives) == 0 {
		return fmt.Errorf("no archives in %s", dir)
	}
	families := map[string]*family{}
	for _, file := range archives {
		known, err := optima(strings.TrimSuffix(file, ".tar.gz") + "_known.csv")
		if err != nil {
			return err
		}
		n := 0
		err = walk(file, func(name string, text []byte) error {
			parts := strings.Split(name, "_")
			items, err := strconv.Atoi(parts[1])
			if err != nil || items <= above || items > most {
				return err
			}
			if n++; n%every != 0 {
				return nil
			}
			f := families[parts[0]+"/"+parts[1]]
			if f == nil {
				f = &family{class: parts[0], items: items}
				families[parts[0]+"/"+parts[1]] = f
			}
			return f.pack(name, text, known[name], each)
		})
		if err != nil {
			return err
		}
	}
	list := make([]*family, 0, len(families))
	for _, f := range families {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *family) int { return cmp.Or(cmp.Compare(a.items, b.items), cmp.Compare(a.class, b.class)) })
	fmt.Printf("\n%g s of work each\n\n", each)
	fmt.Println("| class | items | instances | optimal | share, % | proven here | bins too many | CPU s mean | max | FFD's bins too many |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	var all family
	for _, f := range list {
		f.print(f.class, strconv.Itoa(f.items))
		all.instances, all.best, all.proven = all.instances+f.instances, all.best+f.best, all.proven+f.proven
		all.excess, all.seconds, all.longest = all.excess+f.excess, all.seconds+f.seconds, max(all.longest, f.longest)
		all.ffdOver += f.ffdOver
	}
	all.print("all", "")
	return nil
}

func (f *family) print(class, items string) {
	fmt.Printf("| %s | %s | %d | %d | %.1f | %d | %d | %.2f | %.2f | %.0f |\n", class, items, f.instances, f.best,
		100*float64(f.best)/float64(f.instances), f.proven, f.excess, f.seconds/float64(f.instances), f.longest, f.ffdOver)
}

func (f *family) pack(name string, text []byte, optimum [2]int, each float64) error {
	p, err := instance.VBP(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	k, err := measure(p, func() (node.Packing, error) { return node.Columns{}.Solve(p, iterations(each)) })
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	ffd, err := node.FFD{}.Solve(p, api.Budget{})
	if err != nil {
		return err
	}
	lower, best := optimum[0], optimum[1]
	bins, bound := int(k.Cost+0.5), int(k.LowerBound+0.5)
	if bins < lower || best >= 0 && bound > best {
		return fmt.Errorf("%s: %d bins, at least %d, but the optimum is %d, at least %d", name, bins, bound, best, lower)
	}
	if best < 0 { // not known: what is proven here counts
		best = max(lower, bound)
	}
	f.instances++
	f.seconds += k.seconds
	f.longest = max(f.longest, k.seconds)
	f.excess += bins - best
	f.ffdOver += ffd.Cost - float64(best)
	if bins <= best {
		f.best++
	} else if os.Getenv("VERBOSE") != "" {
		fmt.Fprintln(os.Stderr, name, k.Cost, k.LowerBound, best)
	}
	if k.Optimal {
		f.proven++
	}
	return nil
}

// optima reads instance, lower bound, optimum.
func optima(file string) (map[string][2]int, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	out := map[string][2]int{}
	for _, row := range rows[1:] {
		low, err1 := strconv.Atoi(row[1])
		high, err2 := strconv.Atoi(row[2])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out[row[0]] = [2]int{low, high}
	}
	return out, nil
}

// walk calls each .vbp file of an archive.
func walk(file string, each func(name string, text []byte) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutSuffix(filepath.Base(h.Name), ".vbp")
		if !ok {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := each(name, text); err != nil {
			return err
		}
	}
}

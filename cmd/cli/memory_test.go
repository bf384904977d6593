package cli

import "testing"

func TestMemoryLimit(t *testing.T) {
	for name, c := range map[string]struct {
		stated, container string
		want              int64
		wantErr           bool
	}{
		"nothing known":             {},
		"of the container":          {container: "2147483648", want: 1932735276},
		"GOMEMLIMIT decides":        {stated: "1GiB", container: "2147483648"},
		"no number":                 {container: "2Gi", wantErr: true},
		"none is left":              {container: "0", wantErr: true},
		"what can't be is an error": {container: "-1", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := memoryLimit(c.stated, c.container)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("memoryLimit(%q, %q) = %d, %v", c.stated, c.container, got, err)
			}
		})
	}
}

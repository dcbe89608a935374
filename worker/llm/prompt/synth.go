package prompt

import (
	"fmt"
	"strings"
)

// fictionalRecords is the builder of synth prompts. A change of what it makes is a new version.
const fictionalRecords = "fictional-records/1"

// openSynth is a source of records of matters that never were. It needs no file and has no end.
func openSynth() *Source {
	return &Source{
		Name: Synth, Builder: fictionalRecords,
		document: func(k Key) *document {
			m := newMatter(newDraw(k, fictionalRecords))
			return &document{next: func() (string, error) { return m.next(), nil }}
		},
	}
}

// matter is one fictional proceeding, told entry by entry.
type matter struct {
	*draw
	number               string
	claimant, respondent string
	witnesses            []string
	subject              string
	entry, day           int
}

func newMatter(d *draw) *matter {
	m := &matter{draw: d, claimant: of(d, companies), respondent: of(d, companies), subject: of(d, subjects)}
	for m.respondent == m.claimant {
		m.respondent = of(d, companies)
	}
	m.number = fmt.Sprintf("%d-%s-%05d", 2019+d.below(7), of(d, courts), d.below(100000))
	for range 7 {
		m.witnesses = append(m.witnesses, of(d, given)+" "+of(d, family))
	}
	return m
}

// next is the next entry of the record.
func (m *matter) next() string {
	m.entry++
	if m.entry == 1 {
		return fmt.Sprintf("Matter No. %s\n%s v. %s\nIn the matter of %s\n\n", m.number, m.claimant, m.respondent, m.subject)
	}
	m.day += m.below(6)
	var b strings.Builder
	fmt.Fprintf(&b, "%d. ", m.entry-1)
	switch m.below(4) {
	case 0:
		m.testimony(&b)
	case 1:
		m.exhibit(&b)
	case 2:
		m.order(&b)
	default:
		m.submission(&b)
	}
	b.WriteString("\n\n")
	return b.String()
}

// earlier is the number of an entry before this one; the first one refers to itself.
func (m *matter) earlier() int { return 1 + m.below(max(1, m.entry-2)) }

// date is the day of the entry; every month of the fictional calendar has 28 days.
func (m *matter) date() string {
	return fmt.Sprintf("%d %s, year %d", m.day%28+1, months[m.day/28%12], m.day/336+1)
}

func (m *matter) testimony(b *strings.Builder) {
	w := of(m.draw, m.witnesses)
	fmt.Fprintf(b, "Testimony of %s, %s, given on %s (transcript %d:%d).", w, of(m.draw, trades), m.date(), 1+m.below(900), 1+m.below(25))
	for range 3 + m.below(5) {
		fmt.Fprintf(b, "\nQ. %s\nA. %s %s", of(m.draw, questions), of(m.draw, answers), fmt.Sprintf(of(m.draw, details), 2+m.below(180), of(m.draw, objects)))
	}
}

func (m *matter) exhibit(b *strings.Builder) {
	fmt.Fprintf(b, "Exhibit %c-%d, %s, received on %s over objection.", rune('A'+m.below(26)), 1+m.below(400), of(m.draw, documents), m.date())
	for range 2 + m.below(4) {
		fmt.Fprintf(b, " It states at page %d: “%s, and %s.”", 1+m.below(90), of(m.draw, statements), fmt.Sprintf(of(m.draw, terms), 3+m.below(97), of(m.draw, objects)))
	}
}

func (m *matter) order(b *strings.Builder) {
	fmt.Fprintf(b, "Order of %s. %s", m.date(), of(m.draw, orders))
	fmt.Fprintf(b, " The court refers to § %d of the procedural schedule and to entry %d above. %s is to answer within %d days; costs of € %d are reserved.",
		1+m.below(60), m.earlier(), of(m.draw, []string{m.claimant, m.respondent}), 5+m.below(40), 100*(1+m.below(900)))
}

func (m *matter) submission(b *strings.Builder) {
	side := of(m.draw, []string{m.claimant, m.respondent})
	fmt.Fprintf(b, "Submission of %s, filed on %s.", side, m.date())
	for range 2 + m.below(4) {
		fmt.Fprintf(b, " %s %s, who %s.", of(m.draw, arguments), of(m.draw, m.witnesses), fmt.Sprintf(of(m.draw, conduct), of(m.draw, objects), m.earlier()))
	}
}

package prompt

// The words of the fictional records. All names are invented; some have letters of several bytes, because cuts have
// to respect them.
var (
	courts    = []string{"NC", "OV", "TR", "HB", "QM", "LS"}
	companies = []string{"Ostrava Kiln Works", "Brindlemere Ferries", "Halvøy Tide Power", "Pellucid Glass Guild", "Tannerow Seed Bank", "Üster Clockmakers", "Corriveau Lamp Oil", "Marrowgate Quarries", "Señal Weather Stations", "Dunnock & Vale Printers", "Kestrel Hollow Dairy", "Ardent Rope Company"}
	subjects  = []string{"a delivery of flawed roof tiles", "the flooding of a shared cellar", "a lease of harbour cranes", "the naming of a species of apple", "an unpaid survey of tidal currents", "the loss of a cargo of lenses", "a disputed recipe for glaze", "the closing of a footbridge"}
	given     = []string{"Ansel", "Brónach", "Cäcilie", "Dmitar", "Eulalie", "Fennick", "Gudrið", "Hollis", "Ines", "Jorunn", "Kálmán", "Lisbet", "Mireille", "Niamh", "Oswin", "Pilar"}
	family    = []string{"Abernath", "Brzezny", "Cottermole", "Dalgaard", "Esterházy-Lund", "Fairweather", "Grünspan", "Holloway", "Iwersen", "Jarrold", "Koskela", "Lindqvist", "Márquez", "Nettleship", "Oakhanger", "Præst"}
	trades    = []string{"foreman of the night shift", "surveyor", "bookkeeper of the claimant", "harbour pilot", "keeper of the archive", "chemist retained by the respondent", "driver", "clerk of the weighhouse"}
	months    = []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
	objects   = []string{"crates", "ledger pages", "brass valves", "sacks of lime", "lanterns", "timber props", "sealed jars", "survey stakes", "coils of rope", "roof tiles", "glass panes", "signal flags"}

	questions = []string{
		"Where were you when the alarm was first given?",
		"Did you count what was delivered, or rely on the note?",
		"Who had the keys to the store in that week?",
		"Is this your handwriting in the margin?",
		"What did the respondent's agent say to you at the gate?",
		"How do you explain the gap between the two reports?",
		"When did you first learn of the complaint?",
		"Would you have signed had you seen the second page?",
	}
	answers = []string{
		"I do not remember it that way.",
		"As I told the inspector, I was in the yard until dusk.",
		"Only the foreman could have known.",
		"Yes, though the ink looks darker than it was.",
		"He promised that the matter would be set right.",
		"I wrote down what I was told and no more.",
		"It was raining, and the light was poor.",
		"No; that was decided long before I came.",
	}
	details = []string{
		"There were %d %s against the east wall.",
		"Of the %d %s, hardly any had been marked.",
		"We moved %d %s before the bell.",
		"I later found a receipt for %d %s.",
		"The list gave %d %s, which I thought too many.",
	}
	documents  = []string{"a letter with enclosures", "the register of the weighhouse", "a photograph with notes on its back", "minutes of the joint committee", "an invoice in two versions", "the log of the ferry", "an expert opinion"}
	statements = []string{
		"the parties shall inspect the goods together before they are moved",
		"no notice was given that could be found in the files",
		"the level rose faster than the tables allow",
		"payment falls due when the last part has been accepted",
		"the undersigned saw no damage at the time of loading",
		"all earlier arrangements are replaced by this one",
	}
	terms = []string{
		"a deduction of %d per cent applies to missing %s",
		"within %d days any defect of the %s is to be reported",
		"not more than %d of the %s may be stored below ground",
		"for each of %d further %s the price is to be agreed anew",
	}
	orders = []string{
		"The application to strike the second report is refused.",
		"The hearing is adjourned so that the ledgers may be compared.",
		"Leave to amend is granted within narrow limits.",
		"The parties are to agree on a list of what is no longer disputed.",
		"The objection to the expert is noted and will be decided with the merits.",
		"Inspection of the site is ordered in the presence of both sides.",
	}
	arguments = []string{
		"It is said that the account of the loading cannot be squared with that of",
		"The burden is not met by the mere recollection of",
		"Nothing in the correspondence supports",
		"The chronology, properly read, contradicts",
		"Great weight should be given to",
		"The tribunal is invited to disregard",
	}
	conduct = []string{
		"never saw the %s referred to in entry %d",
		"signed for the %s although entry %d shows otherwise",
		"asked for the %s only after the events of entry %d",
		"kept a private list of the %s that agrees with entry %d",
	}
)

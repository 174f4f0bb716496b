"""What the page over `planted_page` has to say, table by table: plain arithmetic on what was planted."""
